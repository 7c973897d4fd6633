import type { Decision, JsonObject, JsonValue } from '@toolloop/protocol';
import { canonicalJson, toJson } from '../../schema/canonical-json.js';
import type { PolicyDifference, PolicyDraft } from './policy-replay.js';

/** The differences between the policies of two versions. */
export function differencesBetween(
  before: PolicyDraft,
  after: PolicyDraft,
): readonly PolicyDifference[] {
  return [
    ...differences(shownPolicies(before), shownPolicies(after), ''),
    ...differences(endorsementsIn(before), endorsementsIn(after), '/endorsed'),
  ];
}

/**
 * Tells whether two decisions come to the same for a call: whether it is made, and who has to be
 * asked. The rules may have other names.
 */
export function isSameDecision(before: Decision, after: Decision): boolean {
  return (
    before.kind === after.kind &&
    (before.kind !== 'require_approval' ||
      canonicalJson(toJson(before.approval ?? [])) === canonicalJson(toJson(after.approval ?? [])))
  );
}

function endorsementsIn({ endorsed = [] }: PolicyDraft): JsonValue {
  return toJson(endorsed);
}

/** A single policy without its number in the list. */
function shownPolicies({ policies = [] }: PolicyDraft): JsonValue {
  const [only = {}, ...others] = policies;
  return toJson(others.length === 0 ? only : policies);
}

function differences(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  at: string,
): readonly PolicyDifference[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (isNames(before) && isNames(after)) {
    const went = before
      .filter((name) => !after.includes(name))
      .map((name) => ({ at, before: name }));
    return [
      ...went,
      ...after.filter((name) => !before.includes(name)).map((name) => ({ at, after: name })),
    ];
  }
  if (!isBranch(before) || !isBranch(after))
    return [{ at, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }];
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  const names = [...new Set([...one.keys(), ...other.keys()])];
  return names.flatMap((name) =>
    differences(
      one.get(name),
      other.get(name),
      `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
    ),
  );
}

function isBranch(value: JsonValue | undefined): value is JsonObject | JsonValue[] {
  return typeof value === 'object' && value !== null;
}

function isNames(value: JsonValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}
