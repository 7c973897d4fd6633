import * as fc from 'fast-check';
import {
  type AuditDraft,
  type AuditEvent,
  type AuditOptions,
  AuditTrail,
  type AuditVerification,
  type AuditVerificationOptions,
  verifyAudit,
} from '@toolloop/core/audit';
import { type AuditEntry, MemoryAuditStore } from '@toolloop/core/stores';

export const KEY = 'a key of more than thirty-two bytes, for tests';

const allow = {
  kind: 'allow',
  rule: 'allow: crm__*',
  reason: 'The policy allows this tool.',
  policyVersion: 'v1',
} as const;

export function draft(
  tenant: string,
  event: AuditEvent = { kind: 'decision', decision: allow },
): AuditDraft {
  const subject = {
    actorId: 'ada',
    runId: 'run_1',
    toolCallId: 'call_1',
    step: 1,
    declaredId: 'crm__search',
  };
  return { tenant, subject, event, arguments: { text: '{"name":"grace"}', hidden: [] } };
}

export interface Chain {
  readonly trail: AuditTrail;
  readonly store: MemoryAuditStore;
}

export function chain(options: Partial<AuditOptions> = {}, store = new MemoryAuditStore()): Chain {
  return { trail: new AuditTrail(store, { key: KEY, ...options }), store };
}

/** A chain of so many entries of a tenant. */
export async function grown(
  tenant: string,
  count: number,
  key: AuditOptions['key'] = KEY,
): Promise<Chain> {
  const made = chain({ key });
  for (let index = 0; index < count; index += 1)
    await made.trail.record(draft(tenant, { kind: 'denied', code: 'forbidden' }));
  return made;
}

/** Copies that can be tampered with. */
export async function copies({ store }: Chain, tenant: string): Promise<AuditEntry[]> {
  return structuredClone([...(await store.read(tenant, { from: 1, limit: 1_000 }))]);
}

export function check(
  entries: readonly unknown[],
  options: Partial<AuditVerificationOptions> = {},
): Promise<AuditVerification> {
  return verifyAudit(entries, { keys: KEY, ...options });
}

export const text = fc.string({ unit: 'binary', maxLength: 12 });

/** Any kind of entry. */
export const event: fc.Arbitrary<AuditEvent> = fc.oneof(
  fc.record({
    kind: fc.constant('decision' as const),
    decision: fc.record({ ...constants(allow), rule: text, reason: text }),
  }),
  fc.record({
    kind: fc.constant('denied' as const),
    code: fc.constantFrom('policy_denied', 'tenant_override', 'unknown_tool'),
  }),
  fc.record({
    kind: fc.constant('approval-decision' as const),
    approvalId: text,
    decision: fc.constantFrom('approve', 'deny'),
    decidedBy: text,
    decidedAt: text,
    reason: text,
    edited: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('outcome' as const),
    status: fc.constantFrom('succeeded', 'failed', 'unknown'),
    durationMs: fc.nat(),
  }),
  fc.record({
    kind: fc.constant('opt-out' as const),
    names: fc.array(text, { maxLength: 3 }),
    reason: text,
  }),
  fc.record({
    kind: fc.constant('directive-request' as const),
    directiveId: text,
    details: fc.dictionary(text, fc.oneof(text, fc.integer()), { maxKeys: 3 }),
  }),
);

function constants<T extends object>(value: T): { [Name in keyof T]: fc.Arbitrary<T[Name]> } {
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, fc.constant(part)]),
  ) as {
    [Name in keyof T]: fc.Arbitrary<T[Name]>;
  };
}
