"""Compiles functions that are inlined, with less work than numba does for a function that may be called.

The first start of a program compiles all of its functions. Left to itself numba makes of each inlined function a
library: it optimises it as far as it can, generates machine code, and then links the library into every caller, where
all of it is optimised again and the machine code is never called. Here:

* The library of an inlined function has no machine code. It is simplified as far as makes it smaller, with the
  functions that are inlined into it, and is optimised in its callers.
* An inlined function is compiled for the types of its arguments, not for their values. numba would compile it for the
  constant 0 and again for int64 wherever a loop begins with ``at = 0``, and use the latter alone.

Both rely on private parts of numba, as ``kept_code`` does: they are known of the versions ``LIGHT_VERSIONS``, and with
another one everything is as numba does it. Results are the same either way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from stream_dedup.core.kept_code import is_light

_SIMPLIFY_LEVEL = 1
"""What LLVM calls -O1: the passes below need a level, and do not use it."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Hold off the garbage collections of the interpreter during the block.

    The compiler makes hundreds of thousands of objects that live as long as it does; searching them again and again
    takes a tenth of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class InlinedFunction(CPUDispatcher):
    """A function that only compiled functions call, into which it is inlined."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        """Compile nothing yet: that is done for the types of each caller. ``options`` are numba's."""
        self._is_lean = is_light()
        pipeline = _InlinedCompiler if self._is_lean else Compiler
        super().__init__(function, targetoptions=options, pipeline_class=pipeline)

    def get_call_template(self, args: Any, kws: Any) -> Any:  # noqa: ANN401 - numba's types are untyped
        """Return the signatures for arguments of these types, of which constants count as variables."""
        if self._is_lean:
            args = tuple(map(_variable, args))
            kws = {name: _variable(kind) for name, kind in kws.items()}
        return super().get_call_template(args, kws)

    def add_overload(self, cres: Any) -> None:  # noqa: ANN401
        """Register what was compiled, by an object in place of the address of machine code."""
        if not self._is_lean:
            super().add_overload(cres)
            return
        found = cres._replace(entry_point=object())
        context: Any = self.targetctx
        context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        self.overloads[tuple(found.signature.args)] = found


def _variable(kind: Any) -> Any:  # noqa: ANN401
    return types.unliteral(kind)  # type: ignore[no-untyped-call]


class _InlinedCompiler(Compiler):
    """numba's compiler, up to the library."""

    def define_pipelines(self) -> Any:  # noqa: ANN401
        """Return numba's passes; the last one does not ask for the address of machine code."""
        state = self.state
        state.flags.no_compile = True
        made: Any = _InlinedLibrary
        state.library = made(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _InlinedLibrary(JITCodeLibrary):
    """The code of an inlined function and of those that are inlined into it, to be linked into callers."""

    def add_ir_module(self, ir_module: Any) -> None:  # noqa: ANN401
        """Add code as it was generated. numba would verify it and optimise each of its functions first."""
        text = cgutils.normalize_ir_text(str(ir_module))  # type: ignore[no-untyped-call]
        self._final_module.link_in(llvmlite.binding.parse_assembly(text))

    def finalize(self) -> None:
        """Link in what the function calls, and simplify all of it."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)  # noqa: SLF001 - numba's own way to link
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)  # noqa: SLF001
        passes = llvmlite.binding.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        codegen: Any = self._codegen
        passes.run(self._final_module, codegen._pass_builder(opt=_SIMPLIFY_LEVEL))  # noqa: SLF001
        # Callers may each have a copy, and lose it once it is inlined.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvmlite.binding.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = self._final_module
        self._finalized = True
