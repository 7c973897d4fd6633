import {
  DEFAULT_EXECUTION,
  EXECUTION_OPTIONS,
  type ExecutionOptions,
  TOOL_EXECUTION_OPTIONS,
  type ToolExecutionOptions,
} from '../contracts/execution-options.js';
import type { Tool } from '../contracts/tool.js';

/**
 * The execution options of a call: the defaults, then the application's, the tool's (its provider's
 * included) and the run's.
 */
export class ExecutionRules {
  private readonly base: ExecutionOptions;
  private readonly ofTools = new WeakMap<ToolExecutionOptions, ExecutionOptions>();

  constructor(application: Partial<ExecutionOptions> = {}) {
    this.base = EXECUTION_OPTIONS.merge(DEFAULT_EXECUTION, application);
  }

  /** Without a tool: the options for a name that names none, or none that may be known. */
  optionsFor(
    tool: Pick<Tool, 'execution'> | undefined,
    run: Partial<ExecutionOptions> | undefined,
  ): ExecutionOptions {
    const own = tool?.execution;
    const options = own ? this.ofTool(own) : this.base;
    if (!run || own?.selfManaged) return options;
    return EXECUTION_OPTIONS.merge(options, run);
  }

  /** Merged once; all instances of an entity share what their class declares. */
  private ofTool(own: ToolExecutionOptions): ExecutionOptions {
    const known = this.ofTools.get(own);
    if (known) return known;
    const options = {
      ...TOOL_EXECUTION_OPTIONS.merge(this.base, own),
      ...(own.selfManaged && SELF_MANAGED),
    };
    this.ofTools.set(own, options);
    return options;
  }
}

/** Work that a tool which manages itself does on its own. */
const SELF_MANAGED: Partial<ExecutionOptions> = {
  validation: false,
  logging: false,
  metadata: 'none',
  resultFormat: 'value',
  availableOperations: false,
};
