import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { LoopHooks, LoopIteration, ToolStart } from '../../contracts/hooks.js';
import type { RunContext } from '../../contracts/tool-call.js';
import { Logger } from '../../findings/logger.js';
import { compactJson } from '../../schema/canonical-json.js';
import type { AuthorisedCall, Call, CallHooks } from '../../call/call.js';
import { shownArguments } from '../../call/shown-arguments.js';

/**
 * The unanswered promises of a run's hooks, beyond which hooks are not called: those that hang must
 * not fill the memory.
 */
const MOST_UNANSWERED = 1_000;

const logger = new Logger('Hooks');

/**
 * The hooks of one run, or of one attempt at a directive: the application's, its loop's and its
 * request's. They only observe. The run does not wait for what they return, and a hook that fails
 * is logged once a run.
 */
export class RunHooks implements CallHooks {
  private readonly reported = new Set<HookName>();
  private unanswered = 0;

  private constructor(
    private readonly runId: string,
    private readonly hooks: readonly LoopHooks[],
  ) {}

  /** Undefined where there are none, so that a run without hooks does nothing for them. */
  static of(runId: string, ...given: readonly (LoopHooks | undefined)[]): RunHooks | undefined {
    const hooks = given.filter((one) => one !== undefined);
    return hooks.length > 0 ? new RunHooks(runId, hooks) : undefined;
  }

  /** Tells that a call is performed from here on. */
  started(call: AuthorisedCall): void {
    this.tell('onToolStart', (hooks) => hooks.onToolStart?.(startOf(call)));
  }

  /** Tells what became of a call that was begun. */
  ended(call: AuthorisedCall, record: ToolInvocationRecord): void {
    this.tell('onToolEnd', (hooks) => hooks.onToolEnd?.({ ...startOf(call), record }));
  }

  iterated(iteration: LoopIteration, run: RunContext): void {
    this.tell('onIteration', (hooks) => hooks.onIteration?.(iteration, run));
  }

  private tell(name: HookName, call: (hooks: LoopHooks) => unknown): void {
    for (const hooks of this.hooks) this.tellOne(name, () => call(hooks));
  }

  private tellOne(name: HookName, call: () => unknown): void {
    if (this.unanswered >= MOST_UNANSWERED)
      return this.report(name, `${this.unanswered} earlier calls of hooks have not answered`);
    try {
      const answer: unknown = call();
      if (typeof answer === 'object' && answer !== null) void this.answered(name, answer);
    } catch (error) {
      this.report(name, error);
    }
  }

  private async answered(name: HookName, answer: object): Promise<void> {
    this.unanswered += 1;
    try {
      await Promise.resolve(answer);
    } catch (error) {
      this.report(name, error);
    } finally {
      this.unanswered -= 1;
    }
  }

  private report(name: HookName, error: unknown): void {
    if (this.reported.has(name)) return;
    this.reported.add(name);
    logger.warn(
      `The hook ${name} failed (run ${this.runId}). It is not reported again for this run.`,
      error,
    );
  }
}

type HookName = keyof LoopHooks;

/** Returns whether a call was begun: by this process, or as a sub-run that has waited since. */
export function hasBegun(call: Call): call is AuthorisedCall {
  return (
    call.hasBegun === true ||
    (call.request.checkpoint !== undefined && call.tool !== undefined && call.input !== undefined)
  );
}

/** A call in the ui projection. */
function startOf({ request, scope, tool, input }: AuthorisedCall): ToolStart {
  const { runId, path, sessionId, actor, tenant, context } = scope.run;
  const { spec } = tool;
  const call = {
    toolCallId: request.call.toolCallId,
    name: spec.id,
    arguments: compactJson(shownArguments(input.args, tool.input.hidden)),
  };
  const places = { runId, ...(path && { path }), ...(sessionId !== undefined && { sessionId }) };
  return {
    ...places,
    actor,
    tenant,
    context,
    step: request.step,
    tool: spec,
    call,
    effect: spec.effect,
  };
}
