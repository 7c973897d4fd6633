/** Injects the options given to `ToolLoopModule.forRoot`. */
export const TOOL_LOOP_OPTIONS = Symbol('toolloop:options');
