import type { AuditTrail } from '@toolloop/core/audit';
import { toJsonObject } from '@toolloop/core/internal';
import type { AuditEntry } from '@toolloop/core/stores';
import { isJsonObject, type JsonObject } from '@toolloop/protocol';
import { closestTo, differenceText, type JsonDifference } from './json-difference.js';
import { ExpectationError, toExcerpt } from './testing.error.js';

/**
 * The entry that an audit is to have: the fields that are given, those of objects within as well.
 */
export type ExpectedAudit = Partial<
  Pick<
    AuditEntry,
    'actorId' | 'runId' | 'toolCallId' | 'step' | 'declaredId' | 'instanceId' | 'isRehearsal'
  >
> & {
  readonly kind: AuditEntry['kind'];
} & JsonObject;

/** Reads the whole audit of a tenant, in order. */
export async function auditOf(
  trail: Pick<AuditTrail, 'entries'>,
  tenant: string,
): Promise<AuditEntry[]> {
  const read: AuditEntry[] = [];
  for await (const entry of trail.entries(tenant)) read.push(entry);
  return read;
}

/**
 * Asserts that an audit has an entry with these fields.
 *
 * @throws ExpectationError if it has none, with the places in which the closest entry differs
 * @example
 * const audit = await auditOf(app.get(AuditTrail), 'acme');
 * expectAudit(audit, { kind: 'denied', declaredId: 'crm__refund', code: 'policy_denied' });
 */
export function expectAudit(entries: readonly AuditEntry[], expected: ExpectedAudit): void {
  const closest = closestTo(expected, entries, (entry) => partOf(toJsonObject(entry), expected));
  if (closest?.differences.length === 0) return;
  const found = closest
    ? `The closest of its ${entries.length} entries, ${closest.candidate.sequence}, differs in:\n${differenceText(closest.differences.map(turned), ['expected', 'found'])}`
    : 'It is empty.';
  throw new ExpectationError(`The audit has no entry ${toExcerpt(expected)}. ${found}`);
}

/** Cuts a value to the fields that another one has. */
function partOf(whole: JsonObject, { ...wanted }: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([name, value]) => {
      const found = whole[name];
      if (found === undefined) return [];
      return [[name, isJsonObject(found) && isJsonObject(value) ? partOf(found, value) : found]];
    }),
  );
}

function turned({ path, expected, actual }: JsonDifference): JsonDifference {
  return { path, expected: actual, actual: expected };
}
