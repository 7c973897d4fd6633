import { Injectable, Logger, Optional } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ConnectionBroker, type ToolCallContext } from '../protocol/tool-call-context.js';
import { ToolInterceptor } from '../protocol/tool-interceptor.js';
import type { Audience, Tool } from '../protocol/tool.js';
import { compileReveal } from '../schema/revealed.projection.js';
import { CallFailure } from './call.failure.js';
import { idempotencyKeyOf } from './effect.guard.js';
import type { CallProgress } from './execution.scope.js';
import { Interruption, linkSignal, untilAborted } from './interruption.js';
import { drain } from './result.drain.js';
import { ToolCallStorage } from './tool-call.storage.js';

const UI: Audience = 'ui';

/** Stages 6 and 7: interceptors, time budget and cancellation round the tool's method, which runs inside AsyncLocalStorage. */
@Injectable()
export class ToolInvoker {
  private readonly logger = new Logger('ToolCall');
  private readonly anything = compileReveal('all');
  private found: readonly ToolInterceptor[] | undefined;

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly storage: ToolCallStorage,
    @Optional() private readonly broker?: ConnectionBroker,
  ) {}

  /**
   * The live result. Throws what the tool threw; `timeout` or `aborted` where it was interrupted, and `unknown_outcome` where the interrupted tool
   * changes things.
   */
  async invoke(tool: Tool, built: unknown, progress: CallProgress): Promise<unknown> {
    const { scope } = progress;
    const ms = tool.timeoutMs ?? scope.limits.toolCallMs;
    const link = linkSignal(scope.signal, { ms, message: `The tool did not answer within ${ms} ms.` });
    const context = this.contextFor(progress, link.signal, new Date(progress.startedAt.getTime() + ms));
    const onProgress = (value: unknown): void | Promise<void> => this.report(progress, tool.output.project(value, UI));
    try {
      const result = this.storage.run(context, () => drain(this.intercepted(tool, built, context), onProgress, link.signal));
      return result instanceof Promise ? await untilAborted(result, link.signal) : result;
    } catch (error) {
      throw link.signal.aborted ? interrupted(tool, Interruption.from(link.signal), error) : error;
    } finally {
      link.release();
    }
  }

  private intercepted(tool: Tool, input: unknown, context: ToolCallContext): unknown {
    this.found ??= this.explorer.instancesOf(ToolInterceptor);
    if (this.found.length === 0) return tool.invoke(input, context);
    const invocation = { tool: tool.spec, input, context };
    const innermost = (): Promise<unknown> => Promise.resolve().then(() => tool.invoke(input, context));
    return this.found.reduceRight<() => Promise<unknown>>(
      (next, interceptor) => () => interceptor.intercept(invocation, next),
      innermost,
    )();
  }

  private contextFor(progress: CallProgress, signal: AbortSignal, deadline: Date): ToolCallContext {
    const { request, scope } = progress;
    const context: ToolCallContext = {
      ...scope.run,
      step: request.step,
      toolCallId: request.call.toolCallId,
      signal,
      deadline,
      idempotencyKey: idempotencyKeyOf(progress),
      logger: this.logger,
      progress: (value) => void this.report(progress, this.anything.project(value, UI)),
      connection: async (id) => {
        if (!this.broker)
          throw new Error(
            `The tool asked for the connection "${id}" and no ConnectionBroker is provided. Provide one in ToolLoopModule.forRoot({ providers }).`,
          );
        return this.broker.resolve(id, context);
      },
    };
    return context;
  }

  private report({ request, scope }: CallProgress, value: ReturnType<Tool['output']['project']>): void | Promise<void> {
    return scope.emit({ type: 'tool-progress', step: request.step, toolCallId: request.call.toolCallId, tool: request.call.name, value });
  }
}

/** A tool that changes things may have changed them before it was interrupted. */
function interrupted(tool: Tool, interruption: Interruption, cause: unknown): CallFailure {
  if (tool.spec.effect !== 'read_only') {
    const safeMessage = `${interruption.message} Nobody knows whether its effect took place. Do not repeat the call; check first.`;
    return new CallFailure({ code: 'unknown_outcome', safeMessage }, { cause });
  }
  const code = interruption.kind === 'timeout' ? 'timeout' : 'aborted';
  return new CallFailure({ code, safeMessage: interruption.message, retryable: code === 'timeout' }, { cause });
}
