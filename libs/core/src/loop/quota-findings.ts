import type { Finding } from '../protocol/errors.js';
import type { Quota, QuotaQuantity } from '../protocol/quota.js';

const QUANTITIES = ['calls', 'tokens', 'usd'] as const satisfies readonly QuotaQuantity[];

/** What is wrong with the quotas of a tenant. */
export function quotaFindings(quotas: readonly Quota[], at: string): Finding[] {
  const given: unknown = quotas;
  if (!Array.isArray(given)) return [{ at, problem: 'They are not a list.', remedy: 'Give a list; an empty one for no quotas.' }];
  return quotas.flatMap((quota, index) => {
    const found = problemWith(quota, quotas.slice(0, index));
    return found ? [{ at: `${at}[${index}]`, ...found }] : [];
  });
}

function problemWith({ quantity, most, windowMs }: Quota, before: readonly Quota[]): Pick<Finding, 'problem' | 'remedy'> | undefined {
  if (!QUANTITIES.includes(quantity))
    return { problem: `There is no quantity "${quantity}".`, remedy: `Name one of ${QUANTITIES.join(', ')}.` };
  if (!(typeof most === 'number' && most >= 0))
    return { problem: `Its "most" is ${String(most)}.`, remedy: 'Give a number that is not negative.' };
  if (!(Number.isSafeInteger(windowMs) && windowMs > 0))
    return { problem: `Its "windowMs" is ${String(windowMs)}.`, remedy: 'Give whole milliseconds, more than 0.' };
  const isRepeated = before.some((other) => other.quantity === quantity && other.windowMs === windowMs);
  return isRepeated
    ? { problem: `An earlier one counts ${quantity} in the same window already.`, remedy: 'Keep the smaller of the two.' }
    : undefined;
}
