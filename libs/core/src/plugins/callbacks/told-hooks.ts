import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { LoopHooks, LoopIteration, ToolStart } from '../../contracts/hooks.js';
import type { RunContext } from '../../contracts/tool-call.js';
import { Logger } from '../../findings/logger.js';
import { compactJson } from '../../schema/canonical-json.js';
import type { CheckedCall } from '../../plugin/call-points.js';
import { shownArguments } from '../../call/shown-arguments.js';

/**
 * Calls the hooks of one run, or of one attempt at a directive. They only observe: the run does not
 * wait for what they return, and a hook that fails is logged once a run.
 */
export class ToldHooks {
  private readonly reported = new Set<HookName>();
  private unanswered = 0;

  constructor(private readonly runId: string) {}

  /** Tells that a call is performed from here on. */
  started(told: readonly LoopHooks[], call: CheckedCall): void {
    for (const hooks of told) this.tellOne('onToolStart', () => hooks.onToolStart?.(startOf(call)));
  }

  /** Tells what became of a call that was begun. */
  ended(told: readonly LoopHooks[], call: CheckedCall, record: ToolInvocationRecord): void {
    for (const hooks of told)
      this.tellOne('onToolEnd', () => hooks.onToolEnd?.({ ...startOf(call), record }));
  }

  iterated(told: readonly LoopHooks[], iteration: LoopIteration, run: RunContext): void {
    for (const hooks of told)
      this.tellOne('onIteration', () => hooks.onIteration?.(iteration, run));
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

/**
 * The unanswered promises of a run's hooks, beyond which hooks are not called: those that hang must
 * not fill the memory.
 */
const MOST_UNANSWERED = 1_000;

const logger = new Logger('Hooks');

type HookName = keyof LoopHooks;

/** A call in the ui projection. */
function startOf({ request, run, tool, input }: CheckedCall): ToolStart {
  const { runId, path, sessionId, actor, tenant, context } = run.facts.context;
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
