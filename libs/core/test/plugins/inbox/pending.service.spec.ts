import { describe, expect, it } from '@jest/globals';
import { PendingError, PendingService } from '@toolloop/core';
import type { ApprovalTerms } from '@toolloop/core/policy';
import { type Pending, MemoryPendingStore, MemoryAuditStore } from '@toolloop/core/stores';
import { PendingAudit } from '../../../src/plugins/audit/pending-audit.js';
import { AuditTrail } from '../../../src/plugins/audit/audit-trail.js';
import { ActorIdentity } from '../../../src/policy/actor-identity.js';
import { troubled } from '@toolloop/testing';

interface Person {
  readonly id: string;
  readonly roles?: readonly string[];
}

const ann: Person = { id: 'ann' };
const bob: Person = { id: 'bob', roles: ['support'] };
const mia: Person = { id: 'mia', roles: ['manager'] };
const HOUR = 3_600_000;

function recordOf(
  approvalId: string,
  terms: readonly ApprovalTerms[] = [],
  expiresIn = HOUR,
): Pending {
  const expiresAt = new Date(Date.now() + expiresIn).toISOString();
  return {
    id: approvalId,
    kind: 'approval',
    request: {
      approvalId,
      runId: 'r1',
      step: 1,
      toolCallId: 'c1',
      tool: 'bank__pay',
      declaredId: 'bank__pay',
      args: { amount: 1 },
      reason: 'It is large.',
      expiresAt,
      mayEdit: terms.some(({ mayEdit }) => mayEdit),
      mayRemember: terms.some(({ mayRemember }) => mayRemember),
    },
    binding: {
      tenant: 'acme',
      runId: 'r1',
      requesterId: 'ann',
      toolCallId: 'c1',
      declaredId: 'bank__pay',
      instanceId: undefined,
      argsHash: 'x',
      policyVersion: 'v1',
    },
    admitted: terms,
    rule: 'requireApproval[0]',
    createdAt: new Date().toISOString(),
    expiresAt,
  };
}

const sent = (approvalId: string) => ({ approvalId, decision: 'approve' }) as const;

async function desk(...records: Pending[]) {
  const store = new MemoryPendingStore();
  for (const record of records) await store.add(record);
  const service = new PendingService<Person>(
    store,
    new ActorIdentity<Person>({}),
    new PendingAudit(),
  );
  const as = (actor: Person, tenant = 'acme') => ({ actor, tenant });
  const approve = (approvalId: string, who: Person, tenant = 'acme') =>
    service.decide({ approvalId, decision: 'approve' }, as(who, tenant)).then(
      () => 'approved',
      (error: PendingError) => error.code,
    );
  return { store, service, as, approve };
}

/** One approval, two processes that share its store, and their audit. */
async function auditedDesk() {
  const store = new MemoryPendingStore();
  await store.add(recordOf('a1', [{ notRequester: true }]));
  const entries = new MemoryAuditStore();
  const process = () => {
    const witness = new PendingAudit(new AuditTrail(entries, { key: 'k'.repeat(32) }));
    const service = new PendingService<Person>(store, new ActorIdentity<Person>({}), witness);
    return (actor: Person) =>
      service.decide(sent('a1'), { actor, tenant: 'acme' }).catch((error: unknown) => error);
  };
  return {
    store,
    decide: process(),
    decideElsewhere: process(),
    kinds: async (what: 'code' | 'by' = 'code') =>
      (await entries.read('acme', { from: 1, limit: 10 })).map((entry) => {
        const { kind, code, decidedBy } = { code: undefined, decidedBy: undefined, ...entry };
        return [kind, what === 'by' ? decidedBy : code]
          .filter((part) => part !== undefined)
          .join(' ');
      }),
  };
}

describe('invariant 12: an approval', () => {
  it.each<[string, readonly ApprovalTerms[], Person, string]>([
    ['of the requester, where the policy names no one', [], ann, 'approved'],
    ['of no one else then, who does not even see it', [], bob, 'not_found'],
    ['of a person with the role', [{ roles: ['manager'] }], mia, 'approved'],
    ['of no one without it', [{ roles: ['manager'] }], ann, 'not_permitted'],
    ['of anybody but the requester', [{ notRequester: true }], bob, 'approved'],
    ['of the requester, where it must be another', [{ notRequester: true }], ann, 'not_permitted'],
    [
      'of one who meets every rule',
      [{ roles: ['manager'] }, { notRequester: true }],
      mia,
      'approved',
    ],
    [
      'of one who meets only one',
      [{ roles: ['manager'] }, { roles: ['auditor'] }],
      mia,
      'not_found',
    ],
  ])('invariant 12: is taken %s', async (_, terms, who, outcome) => {
    const { approve, service, as } = await desk(recordOf('a1', terms));
    const mayDecide = await service
      .mayDecide('a1', as(who))
      .catch(({ code }: PendingError) => code);
    expect(mayDecide).toBe(outcome === 'not_found' ? outcome : outcome === 'approved');
    expect(await approve('a1', who)).toBe(outcome);
  });

  it('invariant 12: does not exist for another tenant', async () => {
    const { approve, service, as } = await desk(recordOf('a1'));
    expect(await approve('a1', ann, 'globex')).toBe('not_found');
    expect(await service.list(as(ann, 'globex'))).toEqual([]);
  });

  it('invariant 12: is decided once, by the first decision', async () => {
    const { approve } = await desk(recordOf('a1', [{ notRequester: true }]));
    const outcomes = await Promise.all([
      approve('a1', bob),
      approve('a1', mia),
      approve('a1', bob),
    ]);
    expect(outcomes.toSorted()).toEqual(['already_answered', 'already_answered', 'approved']);
  });

  it('invariant 12: has one decision in the audit, and a refusal of each that came too late', async () => {
    const { decide, kinds } = await auditedDesk();
    await Promise.all([decide(bob), decide(mia), decide(bob)]);
    expect(await kinds()).toEqual([
      'approval-decision',
      'approval-refusal already_answered',
      'approval-refusal already_answered',
    ]);
  });

  it('invariant 12: has one decision in the audit where two processes decide at once, and a refusal of the one that lost', async () => {
    const { store, decide, decideElsewhere, kinds } = await auditedDesk();
    await Promise.all([decide(bob), decideElsewhere(mia)]);
    const taken = (await store.find('a1'))?.answer?.decidedBy ?? '';
    expect(await kinds('by')).toEqual([
      `approval-decision ${taken}`,
      `approval-refusal ${taken === 'bob' ? 'mia' : 'bob'}`,
    ]);
  });

  it('invariant 12: stays open where the audit could not keep its decision, and is decided by the next', async () => {
    const store = new MemoryPendingStore();
    await store.add(recordOf('a1', [{ notRequester: true }]));
    const entries = troubled(new MemoryAuditStore(), {
      method: 'append',
      at: 1,
      answer: () => Promise.reject(new Error('It is full.')),
    });
    const witness = new PendingAudit(new AuditTrail(entries, { key: 'k'.repeat(32) }));
    const service = new PendingService<Person>(store, new ActorIdentity<Person>({}), witness);
    await expect(service.decide(sent('a1'), { actor: bob, tenant: 'acme' })).rejects.toThrow(
      'could not keep',
    );
    expect(
      (await service.decide(sent('a1'), { actor: mia, tenant: 'acme' })).answer?.decidedBy,
    ).toBe('mia');
  });

  it('invariant 12: is used once', async () => {
    const { store, approve } = await desk(recordOf('a1'));
    expect(await store.use('a1')).toBe(false);
    await approve('a1', ann);
    expect(await Promise.all([store.use('a1'), store.use('a1')])).toEqual([true, false]);
  });

  it('invariant 12: is never used when it was denied', async () => {
    const { store, service, as } = await desk(recordOf('a1'));
    await service.decide({ approvalId: 'a1', decision: 'deny', reason: 'No.' }, as(ann));
    expect(await store.use('a1')).toBe(false);
  });

  it('invariant 12: expires', async () => {
    const { approve, service, as } = await desk(recordOf('a1', [], -1));
    expect(await approve('a1', ann)).toBe('expired');
    expect(await service.list(as(ann))).toEqual([]);
  });

  it.each([
    ['an id of another form', { approvalId: { $ne: null }, decision: 'approve' }, 'not_found'],
    ['a decision that is none', { approvalId: 'a1', decision: 'Approve' }, 'invalid_answer'],
    ['no decision', { approvalId: 'a1' }, 'invalid_answer'],
  ])('invariant 12: takes from a client no %s', async (_, forged, code) => {
    const { service, as } = await desk(recordOf('a1'));
    await expect(service.decide(forged as never, as(ann))).rejects.toMatchObject({ code });
  });

  it('invariant 12: ignores whatever else a client sends', async () => {
    const { service, as } = await desk(recordOf('a1'));
    const forged = {
      approvalId: 'a1',
      decision: 'approve',
      args: { amount: 9_999 },
      remember: true,
      decidedBy: 'mia',
    } as const;
    const { answer } = await service.decide(forged, as(ann));
    expect(answer).toEqual({
      decision: 'approve',
      decidedBy: 'ann',
      decidedAt: expect.any(String),
    });
  });

  it('invariant 12: lets arguments be changed, and a yes be kept, only where the policy says so', async () => {
    const { service, as } = await desk(
      recordOf('a1'),
      recordOf('a2', [{ mayEdit: true, mayRemember: true, roles: ['manager'] }]),
    );
    await expect(service.decide(sent('a1'), as(ann), { args: {} })).rejects.toMatchObject({
      code: 'invalid_answer',
    });
    await expect(service.decide(sent('a1'), as(ann), { remember: true })).rejects.toMatchObject({
      code: 'invalid_answer',
    });
    const { answer } = await service.decide(sent('a2'), as(mia), {
      args: { amount: 2 },
      remember: true,
    });
    expect(answer).toMatchObject({ args: { amount: 2 }, remember: true });
  });
});

describe('the list of approvals', () => {
  it('shows what waits for an answer, page by page', async () => {
    const { service, as, approve } = await desk(recordOf('a1'), recordOf('a2'), recordOf('a3'));
    await approve('a2', ann);
    expect((await service.list(as(ann))).map(({ approvalId }) => approvalId)).toEqual(['a1', 'a3']);
    expect(
      (await service.list(as(ann), { limit: 1, after: 'a1' })).map(({ approvalId }) => approvalId),
    ).toEqual(['a3']);
  });
});

describe('waiting for an answer', () => {
  it('ends with it', async () => {
    const { store, approve } = await desk(recordOf('a1'), recordOf('a2'));
    const waiting = store.answered('a1', new AbortController().signal);
    await approve('a2', ann);
    await approve('a1', ann);
    expect((await waiting).answer).toMatchObject({ decidedBy: 'ann' });
    expect((await store.answered('a2', new AbortController().signal)).answer).toBeDefined();
  });

  it('ends with the signal', async () => {
    const { store } = await desk(recordOf('a1'));
    const abort = new AbortController();
    const waiting = store.answered('a1', abort.signal);
    abort.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await expect(store.answered('a1', abort.signal)).rejects.toThrow('gone');
  });
});
