import type { LoopEvent, LoopResult } from '@toolloop/core';
import { eventsOf } from './collect.js';
import { ExpectationError } from './expectation.error.js';
import { isEvents } from './run-evidence.js';
import type { RunEvidence } from './run-evidence.js';

/** Which injection is expected. */
export interface ExpectedInjection {
  /** Class of the entity, or name of the strategy. In a result, which holds no classes, an entity tool's prefix stands for its class. */
  readonly provider: string;
  /** The entity's real id. A result names it in the ids of its tools only, so a long id and a grouped tool are found in events alone. */
  readonly instanceId?: string;
  /** Rendered ids that must be among the injected ones; others may be there too. @default any */
  readonly tools?: readonly string[];
}

interface Injection {
  readonly provider: string;
  readonly instanceId?: string;
  readonly tools: readonly string[];
}

/** Makes sure that a run was given an entity's tools, or a strategy's. Throws an `ExpectationError` that lists the run's injections. */
export function expectInjected(evidence: RunEvidence, expected: ExpectedInjection): void {
  const { provider, instanceId, tools = [] } = expected;
  const all = isEvents(evidence) ? fromEvents(evidence) : fromResult(evidence);
  const name = isEvents(evidence) ? provider : provider.toLowerCase();
  const matching = all.filter((one) => one.provider === name && (instanceId === undefined || one.instanceId === instanceId));
  if (matching.length === 0) throw new ExpectationError(`Nothing was injected for ${titleOf(expected)}. ${listOf(all)}`);

  const injected = new Set(matching.flatMap((one) => one.tools));
  const missing = tools.filter((id) => !injected.has(id));
  if (missing.length > 0) throw new ExpectationError(`${titleOf(expected)} was injected without ${missing.join(', ')}. ${listOf(all)}`);
}

function fromEvents(events: readonly LoopEvent[]): readonly Injection[] {
  return eventsOf(events, 'tools-injected');
}

/** Reads `{prefix}_{instanceId}_{method}`; what has another form comes from a strategy, whose name a result does not hold. */
function fromResult({ injectedTools }: LoopResult): readonly Injection[] {
  return injectedTools.map(({ id, declaredId }) => {
    const [prefix = '', method] = declaredId.split('_*_');
    if (method === undefined) return { provider: 'a strategy', tools: [id] };
    const instanceId = id.slice(prefix.length + 1, -(method.length + 1));
    return { provider: prefix.toLowerCase(), instanceId: instanceId === '' ? undefined : instanceId, tools: [id] };
  });
}

function titleOf({ provider, instanceId }: ExpectedInjection): string {
  return instanceId === undefined ? provider : `${provider} ${instanceId}`;
}

function listOf(all: readonly Injection[]): string {
  if (all.length === 0) return 'The run injected no tools.';
  return `Injected: ${all.map((one) => `${titleOf(one)} (${one.tools.join(', ')})`).join('; ')}`;
}
