import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolInvocation } from '../protocol/tool-interceptor.js';
import type { Tool } from '../protocol/tool.js';
import { Interruption } from './interruption.js';

/** A tool's method and what it is about to receive. It is called when the interceptors let it, in time, and where it changes things once. */
export class ToolMethod {
  private wasCalled = false;
  private answered: { readonly live: unknown } | undefined;
  readonly invocation: ToolInvocation;

  constructor(
    private readonly tool: Tool,
    { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
    /** Reads a streaming result to its end. */
    private readonly drained: (result: unknown) => unknown,
  ) {
    this.invocation = { tool: tool.spec, input, context };
  }

  /** Whether the method has answered; an interceptor may have answered in its place. */
  get wasAnswered(): boolean {
    return this.answered !== undefined;
  }

  /** What the method returned, before any interceptor saw it. */
  get answer(): unknown {
    return this.answered?.live;
  }

  get mayHaveChangedThings(): boolean {
    return this.wasCalled && this.tool.spec.effect !== 'read_only';
  }

  call(): unknown {
    const { input, context } = this.invocation;
    if (context.signal.aborted) throw Interruption.from(context.signal);
    if (this.mayHaveChangedThings)
      throw new Error(`An interceptor called next() twice, and ${this.tool.spec.declaredId} changes things: it is called once.`);
    this.wasCalled = true;
    const result = this.drained(this.tool.invoke(input, context));
    return result instanceof Promise ? result.then((live: unknown) => this.keep(live)) : this.keep(result);
  }

  private keep(live: unknown): unknown {
    this.answered = { live };
    return live;
  }
}
