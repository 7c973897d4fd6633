import type { LoopEvent, LoopResult } from '@toolloop/core';
import { eventsOf, isEvents, type RunEvidence } from './expectations.js';
import { ExpectationError } from './testing.error.js';

/** The injection that is expected. */
export interface ExpectedInjection {
  /**
   * The class of the entity, or the name of the strategy. In a result, which holds no classes, an
   * entity tool's prefix stands for its class.
   */
  readonly provider: string;
  /**
   * The entity's real id. A result names it in the ids of its tools only, so a long id and a
   * grouped tool are found in events alone.
   */
  readonly instanceId?: string;
  /**
   * The rendered ids that must be among the injected ones; others may be there too. @default any
   */
  readonly tools?: readonly string[];
}

interface Injection {
  readonly provider: string;
  readonly instanceId?: string;
  readonly tools: readonly string[];
}

/**
 * Asserts that a run was given an entity's tools, or a strategy's.
 *
 * @throws ExpectationError if it was not, with the run's injections
 * @example
 * expectInjected(result, {
 *   provider: 'Customer',
 *   instanceId: 'c-7',
 *   tools: ['customer_c-7_getAverageSpend'],
 * });
 */
export function expectInjected(evidence: RunEvidence, expected: ExpectedInjection): void {
  const { provider, instanceId, tools = [] } = expected;
  const all = isEvents(evidence) ? fromEvents(evidence) : fromResult(evidence);
  const name = isEvents(evidence) ? provider : provider.toLowerCase();
  const matching = all.filter(
    (one) => one.provider === name && (instanceId === undefined || one.instanceId === instanceId),
  );
  if (matching.length === 0)
    throw new ExpectationError(
      `Nothing was injected for ${titleOf(expected)}. ${listOfInjections(all)}`,
    );

  const injected = new Set(matching.flatMap((one) => one.tools));
  const missing = tools.filter((id) => !injected.has(id));
  if (missing.length > 0)
    throw new ExpectationError(
      `${titleOf(expected)} was injected without ${missing.join(', ')}. ${listOfInjections(all)}`,
    );
}

function fromEvents(events: readonly LoopEvent[]): readonly Injection[] {
  return eventsOf(events, 'tools-injected');
}

/**
 * Reads injections from ids of the form `{prefix}_{instanceId}_{method}`; any other id comes from a
 * strategy, whose name a result does not hold.
 */
function fromResult({ injectedTools }: LoopResult): readonly Injection[] {
  return injectedTools.map(({ id, declaredId }) => {
    const [prefix = '', method] = declaredId.split('_*_');
    if (method === undefined) return { provider: 'a strategy', tools: [id] };
    const instanceId = id.slice(prefix.length + 1, -(method.length + 1));
    return {
      provider: prefix.toLowerCase(),
      instanceId: instanceId === '' ? undefined : instanceId,
      tools: [id],
    };
  });
}

function titleOf({ provider, instanceId }: ExpectedInjection): string {
  return instanceId === undefined ? provider : `${provider} ${instanceId}`;
}

function listOfInjections(all: readonly Injection[]): string {
  if (all.length === 0) return 'The run injected no tools.';
  return `Injected: ${all.map((one) => `${titleOf(one)} (${one.tools.join(', ')})`).join('; ')}`;
}
