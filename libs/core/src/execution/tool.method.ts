import { AttachedResult, type Attachment } from '../protocol/attachment.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolInvocation } from '../protocol/tool-interceptor.js';
import type { Tool } from '../protocol/tool.js';
import { Interruption } from './interruption.js';

/** What a method returned. */
export interface MethodAnswer {
  readonly live: unknown;
  readonly attachments: readonly Attachment[];
}

/** A tool's method and what it is about to receive. It is called when the interceptors let it, in time, and where it changes things once. */
export class ToolMethod {
  private wasCalled = false;
  private answered: MethodAnswer | undefined;
  readonly invocation: ToolInvocation;

  constructor(
    private readonly tool: Tool,
    { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
    /** Reads a streaming result to its end. */
    private readonly drained: (result: unknown) => unknown,
  ) {
    this.invocation = { tool: tool.spec, input, context };
  }

  /** What the method returned, before any interceptor saw it; undefined while it has not answered. An interceptor may have answered in its place. */
  get answer(): MethodAnswer | undefined {
    return this.answered;
  }

  get mayHaveChangedThings(): boolean {
    return this.wasCalled && this.tool.spec.effect !== 'read_only';
  }

  call(): unknown {
    const { input, context } = this.invocation;
    if (context.signal.aborted) throw Interruption.from(context.signal);
    if (this.mayHaveChangedThings)
      throw new Error(`An interceptor called next() twice, but ${this.tool.spec.declaredId} changes things, so it is called only once.`);
    this.wasCalled = true;
    const result = this.drained(this.tool.invoke(input, context));
    return result instanceof Promise ? result.then((live: unknown) => this.keep(live)) : this.keep(result);
  }

  /** Interceptors see the plain value: they need not know of attachments, and none is lost in them. */
  private keep(returned: unknown): unknown {
    this.answered =
      returned instanceof AttachedResult
        ? { live: returned.value, attachments: returned.attachments }
        : { live: returned, attachments: NONE };
    return this.answered.live;
  }
}

const NONE: readonly Attachment[] = [];
