import type { JsonObject } from '../protocol/json.js';
import type { PolicyCall, PolicySubject, RunBudget, RunSpending } from '../protocol/policy.js';
import { covers, type Ruling } from './grants.js';

/** The first budget that this call would go beyond. */
export function budgetRuling(budgets: readonly RunBudget[], subject: PolicySubject, call: PolicyCall): Ruling | undefined {
  let asking: Ruling | undefined;
  for (const [index, budget] of budgets.entries()) {
    const exceeded = covers(budget.tools, subject) ? exceededBy(budget, call) : undefined;
    if (exceeded === undefined) continue;
    const rule = `runBudgets[${index}]`;
    if (budget.beyond !== 'ask') return { kind: 'deny', rule, reason: exceeded, isOverBudget: true };
    asking ??= { kind: 'require_approval', rule, reason: exceeded };
  }
  return asking;
}

/** Written so that a total which is no number goes beyond as well. */
function exceededBy({ tools, calls, sum, tokens, usd }: RunBudget, { args, spent }: PolicyCall): string | undefined {
  const earlier = spent.calls.filter((one) => covers(tools, { declaredId: one.declaredId, origin: { source: '', trusted: one.trusted } }));
  if (calls !== undefined && !(earlier.length < calls)) return `A run may make ${calls} such calls, and they are used up.`;
  if (sum) {
    const amount = numberAt(args, sum.argument);
    const total = earlier.reduce((before, one) => before + numberAt(one.args, sum.argument), amount);
    // The total is not told: the argument may be one that nobody may see.
    if (!(total <= sum.most)) return `The sum over ${sum.argument} would go beyond ${sum.most}, which a run may reach.`;
  }
  if (tokens !== undefined && !(spent.tokens <= tokens)) return `The run has used ${spent.tokens} tokens, and may use ${tokens}.`;
  return usd === undefined ? undefined : costBeyond(usd, spent);
}

function costBeyond(most: number, { usd, hasUnknownCost }: RunSpending): string | undefined {
  if (hasUnknownCost) return `What the run has cost is not known, and it may cost ${most} USD.`;
  return usd <= most ? undefined : `The run has cost ${usd} USD, and may cost ${most}.`;
}

/** Absolute: a negative amount would make room for more. What is no number counts as nothing. */
function numberAt(args: JsonObject, pointer: string): number {
  let value: unknown = args;
  for (const part of pointer.split('/').slice(1)) value = memberOf(value, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return typeof value === 'number' ? Math.abs(value) : 0;
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
}
