import { randomUUID } from 'node:crypto';
import { HttpException, Injectable } from '@nestjs/common';
import { ForeignEntityError } from '../discovery/foreign-entity.error.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import { ToolError, type ToolFailure } from '../protocol/tool-error.js';
import type { Tool, ToolRehydration } from '../protocol/tool.js';
import { CallFailure, failureOf, interruptionFailure } from './call.failure.js';
import { limitsOf } from './call-limits.js';
import type { CallProgress, ExecutionScope } from './execution.scope.js';
import { Interruption, linkSignal, untilAborted } from './interruption.js';

/** Finds the instance of an entity tool anew, under the actor the run has now. What is not found, or not clearly the one, is not called. */
@Injectable()
export class EntityRehydration {
  /** Look-ups that are under way, by the run's state map, the one object all calls of a run share. */
  private readonly underWay = new WeakMap<RunContext['state'], Map<string, Promise<object | undefined>>>();

  /** The tool on the instance as it is now. Throws `tool_gone`, `forbidden`, `execution_failed`, `timeout` or `aborted`. */
  async fresh(tool: Tool, progress: CallProgress): Promise<Tool> {
    const { rehydration, spec, entity } = tool;
    if (!rehydration) return tool;
    const { toolCallMs: ms } = limitsOf(progress);
    const looking = this.shared(rehydration, progress.scope);
    const link = linkSignal(progress.scope.signal, { ms, message: outOfTime(ms) });
    try {
      const instance = await untilAborted(looking, link.signal);
      if (!instance) throw gone(tool);
      return { ...rehydration.on(instance), spec, ...(entity && { entity }), rehydration };
    } catch (error) {
      throw error instanceof CallFailure ? error : new CallFailure(refusalOf(error, tool), { cause: error });
    } finally {
      link.release();
    }
  }

  /** One look-up for all calls that wait for it. Once it is answered the next call asks anew: between the two a write may have been made. */
  private shared({ key, lookUp }: ToolRehydration, { run, limits, signal }: ExecutionScope): Promise<object | undefined> {
    const open = this.underWay.get(run.state) ?? new Map<string, Promise<object | undefined>>();
    this.underWay.set(run.state, open);
    const known = open.get(key);
    if (known) return known;
    const ms = limits.toolCallMs;
    const link = linkSignal(signal, { ms, message: outOfTime(ms) });
    const looking = Promise.resolve({ ...run, signal: link.signal }).then(lookUp);
    const answer = untilAborted(looking, link.signal).finally(() => {
      link.release();
      open.delete(key);
    });
    open.set(key, answer);
    return answer;
  }
}

function outOfTime(ms: number): string {
  return `What the tool belongs to was not found within ${ms} ms.`;
}

const GONE = new Set([404, 410]);
const FORBIDDEN = new Set([401, 403]);

/** What a resolver throws on purpose is told as such; anything else may pass, and the cause is in the log. */
function refusalOf(error: unknown, tool: Tool): ToolFailure {
  if (error instanceof Interruption) return { ...interruptionFailure(error), retryable: error.kind === 'timeout' };
  if (error instanceof ForeignEntityError || error instanceof ToolError) return failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (status !== undefined && GONE.has(status)) return gone(tool).failure;
  if (status !== undefined && FORBIDDEN.has(status)) return failureOf(error);
  return {
    code: 'execution_failed',
    safeMessage: 'The object of the tool could not be looked up, so the call was not made. The same call may succeed later.',
    retryable: true,
    correlationId: randomUUID(),
  };
}

/** Whether it is gone or kept from this actor is not told. Nor is its id, which may be anybody's words. */
function gone({ spec, givenBy }: Tool): CallFailure {
  const back = givenBy === undefined ? '' : ` Call ${givenBy} to see what there is now.`;
  return CallFailure.of('tool_gone', `The tool "${spec.id}" is no longer available: what it belongs to was not found any more.${back}`);
}
