import { Logger } from '@nestjs/common';
import type { InjectionResult, NoticedResult, ToolInjectionStrategy } from '../protocol/tool-injection.js';

const logger = new Logger('ToolInjection');

/** Of a strategy that fails nothing is noticed: it is handed the result itself, as long as that is there. */
export function noticedIn(strategies: readonly ToolInjectionStrategy[], result: Pick<InjectionResult, 'record' | 'live'>): NoticedResult {
  return strategies.flatMap((strategy) => {
    try {
      const noticed = strategy.notice?.(result);
      return noticed ? [[keyOf(strategy, strategies), noticed] as const] : [];
    } catch (error) {
      logger.error(`The injection strategy ${strategy.name} failed as it looked at what ${result.record.id} returned.`, error);
      return [];
    }
  });
}

/** Undefined where the strategy was not asked. */
export function noticedBy(
  strategy: ToolInjectionStrategy,
  strategies: readonly ToolInjectionStrategy[],
  noticed: NoticedResult = [],
): readonly string[] | undefined {
  if (noticed.length === 0) return undefined;
  const key = keyOf(strategy, strategies);
  return noticed.find(([one]) => one === key)?.[1];
}

/** Several may have the same name. */
function keyOf(strategy: ToolInjectionStrategy, strategies: readonly ToolInjectionStrategy[]): string {
  const { name } = strategy;
  return `${name}:${strategies.filter((other) => other.name === name).indexOf(strategy)}`;
}
