"""What Ansible works out anew in every run and every task, worked out once for all runs of the tests.

Ansible packs a module with all that it imports: it parses each file to see what that is, and sends the sources in an
archive, from which Python compiles them in every task. Each start reads Ansible's own lists, in YAML, and compiles
what it imports of a collection. Each task compiles its templates, in a process of its own. Together that is more than
half of what a run on localhost costs. All of it depends on the bytes of one source alone, so the answer is kept under
their SHA-256, and a changed source has another.

Programs that tests start find this file by PYTHONPATH, and the folder of the answers by ONCE_FOR_ALL. Python before
3.10 works as ever.
"""

import os
import sys

FOLDER = os.environ.get("ONCE_FOR_ALL", "")


def kept(kind, source, answer):
    """What `answer()` returned for this kind and source when it was called first, by whichever program."""
    import hashlib
    import marshal

    digest = hashlib.sha256(source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass"))
    path = os.path.join(FOLDER, f"{kind}.{digest.hexdigest()}.{sys.implementation.cache_tag}")
    try:
        with open(path, "rb") as file:
            return marshal.loads(file.read())
    except OSError:
        found = answer()
    # An ordinary user may not write there, and dates have no place in marshal: both are worked out as ever.
    try:
        data = marshal.dumps(found)
        with open(f"{path}.{os.getpid()}", "wb") as file:
            file.write(data)
        os.rename(file.name, path)
    except (OSError, ValueError):
        pass
    return found


def code_of(source, filename, **how):
    import _imp

    code = kept("code", source, lambda: compile(source, filename, "exec", **how))
    # Tracebacks and warnings name the file, and an archive has another name in every task.
    _imp._fix_co_filename(code, filename)
    return code


def in_archives(zipimport):
    """What a module imports on the host."""
    zipimport._compile_source = lambda path, source: code_of(source, path, dont_inherit=True)


def of_collections(finder):
    """What a start imports of a collection, for which Ansible leaves no compiled files."""

    def compiled(source, filename, mode, flags, dont_inherit):
        if (mode, flags) != ("exec", 0):
            return compile(source, filename, mode, flags, dont_inherit)
        return code_of(source, filename, dont_inherit=dont_inherit)

    finder.compile = compiled


def of_packing(module_common):
    """Of a parsed source Ansible looks at the imports alone, and whether they stand at the top."""
    import ast

    def imports(source):
        tree = compile(source, "<unknown>", "exec", ast.PyCF_ONLY_AST)
        found = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        lines = [ast.unparse(node) for node in tree.body if node in found]
        deeper = [f" {ast.unparse(node)}" for node in found if node not in tree.body]
        return "\n".join([*lines, *(["if deeper:"] if deeper else []), *deeper])

    def parsed(source, filename, mode, flags=0):
        if (mode, flags) != ("exec", ast.PyCF_ONLY_AST):
            return compile(source, filename, mode, flags)
        return compile(kept("imports", source, lambda: imports(source)), filename, mode, flags)

    module_common.compile = parsed


def of_lists(yaml):
    load = yaml.yaml_load

    def loaded(stream):
        source = stream.read() if hasattr(stream, "read") else stream
        return kept("yaml", source, lambda: load(source))

    # None on a host without PyYAML.
    yaml.yaml_load = load and loaded


def of_templates(environment):
    """A template's code depends on its source and on the environment's settings, but for results that it contains."""
    import jinja2
    from jinja2 import nodes

    whole = environment.Environment.compile
    of_constants = nodes._FilterTestCommon.as_const
    worked_out = []

    def noticed(node, eval_ctx=None):
        # A filter of constants is worked out here and now, and may know more than its arguments.
        found = of_constants(node, eval_ctx)
        worked_out.append(node)
        return found

    def compiled(self, source, name=None, filename=None, raw=False, defer_init=False):
        def itself():
            return whole(self, source, name, filename, raw, defer_init)

        def answer():
            del worked_out[:]
            code = itself()
            return None if worked_out else code

        if name or filename or raw or defer_init or not isinstance(source, str):
            return itself()
        about = [getattr(self, name) for name in SETTINGS]
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in (type(self), self.code_generator_class)]
        key = repr([jinja2.__version__, *kinds, sorted(self.extensions), *about])
        return kept("template", f"{key}\0{source}", answer) or itself()

    nodes._FilterTestCommon.as_const = noticed
    environment.Environment.compile = compiled


# What of an environment decides a template's code.
SETTINGS = (
    *("block_start_string", "block_end_string", "variable_start_string", "variable_end_string"),
    *("comment_start_string", "comment_end_string", "line_statement_prefix", "line_comment_prefix"),
    *("trim_blocks", "lstrip_blocks", "newline_sequence", "keep_trailing_newline"),
    *("optimized", "sandboxed", "is_async"),
)
AFTER_IMPORT = {
    "jinja2.environment": of_templates,
    "ansible.utils.collection_loader._collection_finder": of_collections,
    "ansible.executor.module_common": of_packing,
    "ansible.module_utils.common.yaml": of_lists,
}


class Finder:
    """Finds nothing itself: a module of the table is found as ever, and changed once it is loaded."""

    def __init__(self):
        self.looking = ""

    def find_spec(self, name, path=None, target=None):
        if name not in AFTER_IMPORT or name == self.looking:
            return None
        import importlib.util

        self.looking = name
        spec = importlib.util.find_spec(name)
        self.looking = ""
        if spec is not None:
            load = spec.loader.exec_module

            def load_and_change(module):
                load(module)
                AFTER_IMPORT[name](module)

            spec.loader.exec_module = load_and_change
        return spec


if FOLDER and sys.version_info >= (3, 10):
    import gc
    import zipimport

    # These programs live for seconds: looking for garbage was a tenth of their processor time.
    gc.set_threshold(100_000, 50, 100)

    in_archives(zipimport)
    sys.meta_path.insert(0, Finder())
