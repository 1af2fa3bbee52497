"""Keeps machine code in the table store, and loads it without what only compiling needs.

Code is kept under a name that carries all that it is made from: what it is compiled for (``levels``), the versions of
Python and the compiler, and what its maker names, the source. A store never returns anything else, nor damage.

Before numba loads code that it has kept itself, it imports the implementations of all of Python and NumPy that it can
compile, SciPy's linear algebra for them where SciPy is installed, and compiles functions of its own: a third of a
second and 50 MB in every process. Beside the code it keeps the *environments* of all functions that were inlined into
it, which import the same modules, and which machine code without Python objects never reads. With the code it keeps
LLVM's form of it, from which it can be inlined into other functions; numba reads that of every function, which takes
longer than all the rest.

None of this is done here: the code finds the functions of numba's runtime by their names, is kept without environments,
and LLVM's form of a function is read when a function that calls it is compiled. numba loads the rest by itself then.
This is known of the versions ``LIGHT_VERSIONS``; with another one everything is as numba does it.

Where several processes start at once and nothing is kept yet, one compiles a function and the others wait for its code:
all would take the same seconds of as many cores.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite
import llvmlite.binding
import xxhash
from numba import __version__ as numba_version
from numba.core import config
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result
from numba.core.serialize import dumps, loads

from stream_dedup.core.levels import compiled_for
from stream_dedup.core.table_store import TableStore, table_store

LIGHT_VERSIONS = ("0.68.",)
"""Beginnings of the versions of numba that this was run with."""
_SETTINGS = ("USING_SVML", "BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
"""Of numba: a library that code may call, and how it is compiled."""
not_kept: list[str] = []
"""Why machine code could not be kept, one reason for each function that was compiled. The caller logs them."""


class KeptCode(NullCache):
    """The kept code of one function, as numba's dispatcher asks for it."""

    def __init__(self, function: Callable[..., Any], *made_from: str) -> None:
        """Read nothing yet. ``made_from``: all that the code depends on but processor, Python and compiler."""
        made_for = compiled_for()
        self._file = function.__code__.co_filename
        processor = f"{made_for.name}_{xxhash.xxh3_64_hexdigest(repr(made_for).encode())[:8]}"
        tag = sys.implementation.cache_tag
        self._kind = re.sub(r"[^\w.]", "_", f"{function.__module__}.{function.__qualname__}.{processor}.{tag}")
        self._made_from = (*made_from, *made_for, *_versions(), str(is_light()))
        self.turn = ExitStack()
        """Holds off other processes while this one compiles the function; closed when the code is kept."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401, ARG002 - numba's types are untyped
        """Return the compiled function if its code is kept, else None: it is this process's turn to compile it."""
        store = table_store()
        if store is None:
            return None
        found = self._loaded(store, target_context)
        if found is None:
            self.turn.enter_context(store.alone(self._file))
            found = self._loaded(store, target_context)
            if found is None:
                store.note_compiling()
        return found

    def save_overload(self, sig: Any, cres: Any) -> None:  # noqa: ANN401, ARG002
        """Keep a function that was compiled; note why it cannot be kept."""
        store = table_store()
        if store is None:
            return
        if cres.library.has_dynamic_globals or cres.lifted:
            not_kept.append(f"{self._kind} refers to an object of this process")
            return
        try:
            store.keep(self._kind, self._made_from, [dumps(_reduced(cres))])  # type: ignore[no-untyped-call]
        except OSError as error:
            not_kept.append(str(error))

    def _loaded(self, store: TableStore, target_context: Any) -> Any:  # noqa: ANN401
        content = store.find(self._kind, self._made_from)
        return None if content is None else _rebuilt(target_context, loads(content))


def is_light() -> bool:
    """Return whether private parts of this version of numba may be relied on."""
    return bool(numba_version.startswith(LIGHT_VERSIONS))


def _versions() -> tuple[str, ...]:
    """Return what machine code depends on beside its source and the processor: versions, and settings of numba."""
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    settings = (f"{name} {getattr(config, name)}" for name in _SETTINGS)
    return str(sys.implementation.cache_tag), sys.abiflags, numba_version, llvmlite.__version__, llvm, *settings


def _reduced(cres: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what is kept of a compiled function: no annotated source, and no environments of inlined functions."""
    kept: tuple[Any, ...] = cres._reduce()  # noqa: SLF001 - numba's own way to keep it
    return (*kept[:-3], "", kept[-2], ()) if is_light() else kept


def _rebuilt(target_context: Any, kept: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Return the compiled function, of which only machine code is read."""
    if not is_light():
        target_context.refresh()
        return CompileResult._rebuild(target_context, *kept)  # type: ignore[no-untyped-call]  # noqa: SLF001
    _name_runtime()
    (name, _, (code, bitcode)), described, environment, signature, *_ = kept
    library = _KeptLibrary(target_context.codegen(), name, code, bitcode)
    library.declare(described.llvm_func_name, described.llvm_cpython_wrapper_name)
    return compile_result(  # type: ignore[no-untyped-call]
        target_context=target_context,
        typing_context=target_context.typing_context,
        library=library,
        environment=environment,
        entry_point=target_context.get_executable(library, described, environment),
        fndesc=described,
        signature=signature,
        objectmode=False,
    )


class _KeptLibrary(JITCodeLibrary):
    """Machine code that was kept; LLVM's form of it is read when it is to be inlined."""

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: bytes) -> None:  # noqa: ANN401
        super().__init__(codegen, name)  # type: ignore[no-untyped-call]
        self._bitcode = bitcode
        self.enable_object_caching()  # type: ignore[no-untyped-call]
        self._set_compiled_object(code)  # type: ignore[no-untyped-call]
        self._finalize_final_module()  # type: ignore[no-untyped-call]

    def declare(self, *names: str) -> None:
        """Let numba look up these functions, which the machine code has."""
        self._codegen._engine._defined_symbols.update(names)  # noqa: SLF001

    def _get_module_for_linking(self) -> Any:  # noqa: ANN401
        if self._shared_module is None:
            self._shared_module = llvmlite.binding.parse_bitcode(self._bitcode)
        return self._shared_module


@cache
def _name_runtime() -> None:
    """Let machine code find the functions of numba's runtime, which counts references to arrays."""
    runtime: Any = import_module("numba.core.runtime._nrt_python")
    for name, address in runtime.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
