import { Logger } from '@nestjs/common';
import { Toolset } from '../catalog/toolset.js';
import type { RunBeginning, ToolInjection, ToolInjectionStrategy } from '../protocol/tool-injection.js';
import { applyPermitted, type InjectionRules } from './injection.applier.js';
import { RunInstances } from './run.instances.js';
import type { RunReserve } from './run.reserve.js';

const logger = new Logger('ToolInjection');

/** What decides on a run's first toolset, beside its policies. */
interface Beginning extends Pick<InjectionRules, 'exclude' | 'entities'> {
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly reserve: RunReserve;
  /** Leaves out what may not be applied at all. */
  readonly admit: (injection: ToolInjection) => ToolInjection;
}

/** What a run starts with: what nobody keeps back, and behind it what its strategies give from the start, in their order. */
export function begunToolset(
  { strategies, reserve, exclude, entities, admit }: Beginning,
  { limits, ...scope }: Pick<InjectionRules, 'run' | 'actor' | 'policies' | 'limits'>,
  before: Pick<RunBeginning, 'records' | 'shown'> = { records: [] },
): Toolset {
  const instances = new RunInstances();
  const rules = { ...scope, exclude, entities, instances, limits: { ...limits, injectedTools: Number.POSITIVE_INFINITY } };
  const { run } = scope;
  const room = limits.injectedTools;
  const { dispatcher } = entities;
  let toolset = Toolset.of(dispatcher ? [...reserve.kept, dispatcher] : reserve.kept);
  for (const strategy of strategies) {
    const begun = begin(strategy, { ...before, run, room, toolset: toolset.specs, withheld: reserve.of(strategy) });
    const { name, yields = false } = strategy;
    if (begun) toolset = applyPermitted(toolset, admit(begun), rules, { step: 0, strategy: name, yields, injected: [] }).toolset;
  }
  return toolset;
}

/**
 * Tells strategies what a run within the run did, where the process that kept their notes of it is gone. What it has by now is known, so that nothing they
 * give is taken.
 */
export function remindStrategies(
  { strategies, reserve }: Pick<Beginning, 'strategies' | 'reserve'>,
  before: Pick<RunBeginning, 'run' | 'toolset' | 'room' | 'records' | 'shown'>,
): void {
  for (const strategy of strategies) begin(strategy, { ...before, withheld: reserve.of(strategy) });
}

/** A strategy that fails gives nothing, and what it keeps back stays away. */
function begin(strategy: ToolInjectionStrategy, beginning: RunBeginning): ToolInjection | undefined {
  try {
    return strategy.begin?.(beginning);
  } catch (error) {
    logger.error(`The injection strategy ${strategy.name} failed as the run ${beginning.run.runId} began.`, error);
    return undefined;
  }
}
