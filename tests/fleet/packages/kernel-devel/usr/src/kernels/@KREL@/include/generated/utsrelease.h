#define UTS_RELEASE "@KREL@"
