import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import { ToolError, type ToolFailure } from '@toolloop/protocol';
import { CallFailure, failureOf, interruptionFailure } from '../../call/call-failure.js';
import { type ExecutionScope, inPlace, type ResolvedCall } from '../../call/call.js';
import { Interruption, linkSignal, untilAborted } from '../../contracts/interruption.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { Tool, ToolRehydration } from '../../contracts/tool.js';
import { ForeignEntityError } from './entity-registry.js';

/**
 * Finds the instance of an entity tool again, under the actor the run has now. An instance that is
 * not found, or not clearly the one, is not called.
 */
export class EntityRehydration {
  /**
   * Look-ups that are under way, by the run's state map, the one object all calls of a run share.
   */
  private readonly underWay = new WeakMap<
    RunContext['state'],
    Map<string, Promise<object | undefined>>
  >();

  /**
   * Returns the tool on the instance as it is now.
   *
   * @throws {CallFailure} `tool_gone`, `forbidden`, `execution_failed`, `timeout` or `aborted`.
   */
  async fresh(call: ResolvedCall, rehydration: ToolRehydration): Promise<Tool> {
    const { tool, scope, limits } = call;
    const { spec, entity } = tool;
    const { toolCallMs: ms } = limits;
    const looking = scope.rehearsal
      ? inPlace(call, () => this.found(rehydration, scope))
      : this.shared(rehydration, scope);
    const link = linkSignal(scope.signal, { ms, message: outOfTime(ms) });
    try {
      const instance = await untilAborted(looking, link.signal);
      if (!instance) throw gone(tool);
      return { ...rehydration.on(instance), spec, ...(entity && { entity }), rehydration };
    } catch (error) {
      throw error instanceof CallFailure
        ? error
        : new CallFailure(refusalOf(error, tool), { cause: error });
    } finally {
      link.release();
    }
  }

  /**
   * One look-up for all calls that wait for it. Once it is answered the next call asks anew:
   * between the two a write may have been made.
   */
  private shared(rehydration: ToolRehydration, scope: ExecutionScope): Promise<object | undefined> {
    const { key } = rehydration;
    const { run } = scope;
    const open = this.underWay.get(run.state) ?? new Map<string, Promise<object | undefined>>();
    this.underWay.set(run.state, open);
    const known = open.get(key);
    if (known) return known;
    const answer = this.found(rehydration, scope).finally(() => open.delete(key));
    open.set(key, answer);
    return answer;
  }

  private found(
    { lookUp }: ToolRehydration,
    { run, limits: { toolCallMs: ms }, signal }: ExecutionScope,
  ): Promise<object | undefined> {
    const link = linkSignal(signal, { ms, message: outOfTime(ms) });
    const looking = Promise.resolve({ ...run, signal: link.signal }).then(lookUp);
    return untilAborted(looking, link.signal).finally(() => link.release());
  }
}

function outOfTime(ms: number): string {
  return `What the tool belongs to was not found within ${ms} ms.`;
}

const GONE = new Set([404, 410]);
const FORBIDDEN = new Set([401, 403]);

/**
 * Returns the failure of a look-up. An error that a resolver throws on purpose is told as such; any
 * other may pass, and its cause is in the log.
 */
function refusalOf(error: unknown, tool: Tool): ToolFailure {
  if (error instanceof Interruption)
    return { ...interruptionFailure(error), retryable: error.kind === 'timeout' };
  if (error instanceof ForeignEntityError || error instanceof ToolError) return failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (status !== undefined && GONE.has(status)) return gone(tool).failure;
  if (status !== undefined && FORBIDDEN.has(status)) return failureOf(error);
  return {
    code: 'execution_failed',
    safeMessage:
      'The object of the tool could not be looked up, so the call was not made. The same call may succeed later.',
    retryable: true,
    correlationId: randomUUID(),
  };
}

/**
 * Returns the failure for an entity that is gone or not this actor's: the model is not told which.
 * Nor is the id told, which may be anybody's words.
 */
function gone({ spec, givenBy }: Tool): CallFailure {
  const back = givenBy === undefined ? '' : ` Call ${givenBy} to see what there is now.`;
  return CallFailure.of(
    'tool_gone',
    `The tool "${spec.id}" is no longer available: what it belongs to was not found any more.${back}`,
  );
}
