import { DEFAULT_EXECUTION, givenOptions, type ExecutionOptions, type ToolExecutionOptions } from '../protocol/execution-options.js';
import type { Tool } from '../protocol/tool.js';

/** What a tool that manages itself is spared. */
const SELF_MANAGED: Partial<ExecutionOptions> = {
  validation: false,
  logging: false,
  metadata: 'none',
  resultFormat: 'value',
  availableOperations: false,
};

/** Which execution options hold for a call: the defaults, then the application's, the tool's (its provider's included) and the run's. */
export class ExecutionRules {
  private readonly base: ExecutionOptions;
  private readonly ofTools = new WeakMap<ToolExecutionOptions, ExecutionOptions>();

  constructor(application?: Partial<ExecutionOptions>) {
    this.base = { ...DEFAULT_EXECUTION, ...givenOptions(application) };
  }

  /** Without a tool: what holds for a name that names none, or none that may be known. */
  optionsFor(tool: Pick<Tool, 'execution'> | undefined, run: Partial<ExecutionOptions> | undefined): ExecutionOptions {
    const own = tool?.execution;
    const options = own ? this.ofTool(own) : this.base;
    if (!run || own?.selfManaged) return options;
    return { ...options, ...givenOptions(run) };
  }

  /** Merged once; all instances of an entity share what their class declares. */
  private ofTool(own: ToolExecutionOptions): ExecutionOptions {
    const known = this.ofTools.get(own);
    if (known) return known;
    const options = { ...this.base, ...givenOptions(own), ...(own.selfManaged && SELF_MANAGED) };
    this.ofTools.set(own, options);
    return options;
  }
}
