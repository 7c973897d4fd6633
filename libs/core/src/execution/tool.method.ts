import { AttachedResult, type Attachment } from '../protocol/attachment.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolInvocation } from '../protocol/tool-interceptor.js';
import type { Tool } from '../protocol/tool.js';
import type { MethodState } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { Interruption } from './interruption.js';

/** What a method returned. */
export interface MethodAnswer {
  readonly live: unknown;
  readonly attachments: readonly Attachment[];
}

/**
 * A tool's method and what it is about to receive, inside all interceptors: it alone knows whether the effect took place. It is called when the interceptors let it,
 * in time, and where it changes things once.
 */
export class ToolMethod {
  readonly invocation: ToolInvocation;
  private wasCalled = false;
  private isOver = false;
  private answered: MethodAnswer | undefined;
  private failed: { readonly error: unknown } | undefined;

  constructor(
    private readonly tool: Tool,
    { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
    /** Reads a streaming result to its end. */
    private readonly drained: (result: unknown) => unknown,
  ) {
    this.invocation = { tool: tool.spec, input, context };
  }

  /** A method that settles after its call was interrupted stays in flight: it may have been cut off anywhere. */
  get state(): MethodState {
    if (this.answered) return 'answered';
    if (this.failed) return 'threw';
    return this.wasCalled ? 'in_flight' : 'not_called';
  }

  /** What the method returned, before any interceptor saw it; undefined while it has not answered. An interceptor may have answered in its place. */
  get answer(): MethodAnswer | undefined {
    return this.answered;
  }

  /** What the method itself threw, whatever the interceptors made of it. */
  get thrown(): unknown {
    return this.failed?.error;
  }

  get changesThings(): boolean {
    return this.tool.spec.effect !== 'read_only';
  }

  /** From now on a method that changes things is not called any more: the outcome of its call is about to be told. */
  close(): void {
    this.isOver = true;
  }

  call(): unknown {
    const { input, context } = this.invocation;
    if (context.signal.aborted) throw Interruption.from(context.signal);
    if (this.thrown instanceof CallPending) throw this.thrown; // no retry of an interceptor makes it answer
    if (this.changesThings) this.assertCallable();
    this.wasCalled = true;
    try {
      const result = this.drained(this.tool.invoke(input, context));
      return result instanceof Promise ? this.settled(result) : this.keep(result);
    } catch (error) {
      throw this.fail(error);
    }
  }

  private assertCallable(): void {
    const { declaredId } = this.tool.spec;
    if (this.wasCalled) throw new Error(`An interceptor called next() twice, but ${declaredId} changes things, so it is called only once.`);
    if (this.isOver) throw new Error(`An interceptor called next() too late: the call of ${declaredId} is over, so it is not made.`);
  }

  private settled(running: Promise<unknown>): Promise<unknown> {
    const { signal } = this.invocation.context;
    return running.then(
      (returned) => (signal.aborted ? returned : this.keep(returned)),
      (error: unknown) => {
        throw signal.aborted && !(error instanceof CallPending) ? error : this.fail(error);
      },
    );
  }

  /** Interceptors see the plain value: they need not know of attachments, and none is lost in them. */
  private keep(returned: unknown): unknown {
    this.answered =
      returned instanceof AttachedResult
        ? { live: returned.value, attachments: returned.attachments }
        : { live: returned, attachments: NONE };
    return this.answered.live;
  }

  private fail(error: unknown): unknown {
    this.failed = { error };
    return error;
  }
}

const NONE: readonly Attachment[] = [];
