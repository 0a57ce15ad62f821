/* stand-in */
#define CUDA_TOOLKIT "@X_Y@"
