import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { type Decision, policies, type Policy } from '@toolloop/core';
import type { PolicySubject } from '@toolloop/core/policy';
import { TOOL_EFFECTS } from '@toolloop/protocol';
import { cases } from '../../../../test/cases.js';
import { CompiledPolicy } from '../../src/policy/compiled-policy.js';
import { decide } from '../../src/policy/decide.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { callOf, subjectOf } from './subjects.js';

const validators = new SchemaValidators();
const search: PolicySubject = subjectOf({ declaredId: 'crm__search', call: callOf() });
const remove: PolicySubject = { ...search, declaredId: 'crm__remove', effect: 'state_change' };
const send: PolicySubject = { ...search, declaredId: 'mail__send', effect: 'external_side_effect' };
const spend: PolicySubject = { ...search, declaredId: 'customer_*_getSpend' };
const remote: PolicySubject = {
  ...search,
  declaredId: 'remote__run',
  origin: { source: 'remote', trusted: false },
};

function decided(subject: PolicySubject, ...given: Policy[]): Decision {
  return decide(
    given.map((policy) => new CompiledPolicy(policy, validators)),
    subject,
  );
}

describe('invariant 2: a policy', () => {
  it('invariant 2: denies what no rule allows, and where there is no policy at all', () => {
    expect(decided(search, { allow: [] })).toMatchObject({
      kind: 'deny',
      rule: 'default',
      reason: 'No rule of the policy allows this tool.',
    });
    expect(decided(search)).toEqual({
      kind: 'deny',
      rule: 'default',
      reason: 'There is no policy.',
      policyVersion: 'none',
    });
  });

  it('invariant 2: allows by id and by glob, and says which rule did', () => {
    expect(decided(search, { version: 'v1', allow: ['crm__search'] })).toEqual({
      kind: 'allow',
      rule: 'allow: crm__search',
      reason: 'The policy allows this tool.',
      policyVersion: 'v1',
    });
    expect(decided(search, { allow: ['x', 'crm__*'] }).rule).toBe('allow: crm__*');
  });

  it('invariant 2: lets deny win, whichever is the more exact', () => {
    expect(decided(search, { allow: ['crm__search'], deny: ['crm__*'] })).toMatchObject({
      kind: 'deny',
      rule: 'deny: crm__*',
    });
    expect(decided(search, { allow: ['*'], deny: ['crm__search'] })).toMatchObject({
      kind: 'deny',
      rule: 'deny: crm__search',
    });
  });

  it('invariant 2: allows the tools of an entity by their one declared id, or by a glob', () => {
    expect(decided(spend, { allow: ['customer_*_getSpend'] }).kind).toBe('allow');
    expect(decided(spend, { allow: ['customer_*_*'] }).kind).toBe('allow');
    expect(decided(spend, { allow: ['customer_*_other'] }).kind).toBe('deny');
  });

  it.each([
    [search, 'allow'],
    [remove, 'deny'],
    [send, 'deny'],
  ])('invariant 2: denies effects it does not list: $declaredId', (subject, kind) => {
    expect(decided(subject, { allow: ['*'], effects: ['read_only'] }).kind).toBe(kind);
  });

  it.each([
    [search, 'allow'],
    [remove, 'require_approval'],
    [send, 'deny'],
  ])(
    'invariant 2: asks for approval of what is allowed otherwise, and of nothing else: $declaredId',
    (subject, kind) => {
      const policy: Policy = {
        allow: ['crm__*'],
        requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
      };
      expect(decided(subject, policy).kind).toBe(kind);
    },
  );

  it('invariant 2: lets no glob, not even the widest, match a tool of an untrusted source', () => {
    for (const glob of ['*', 'remote__*', '*run', 'remote__ru*n'])
      expect(decided(remote, { allow: [glob] }).kind).toBe('deny');
    expect(decided(remote, { allow: ['remote__run'] })).toMatchObject({
      kind: 'allow',
      rule: 'allow: remote__run',
    });
  });

  it('invariant 2: lets a deny glob match a tool of an untrusted source', () => {
    expect(decided(remote, { allow: ['remote__run'], deny: ['remote__*'] })).toMatchObject({
      kind: 'deny',
      rule: 'deny: remote__*',
    });
  });

  it.each(['*', 'crm__*', '**'])(
    'invariant 2: takes the pattern %s for no id, even where an untrusted tool is called so',
    (declaredId) => {
      expect(decided({ ...remote, declaredId }, { allow: [declaredId] }).kind).toBe('deny');
    },
  );

  it('invariant 2: does not take one tool for another of the same words', () => {
    const policy = new CompiledPolicy({ allow: ['*'] }, validators);
    const odd = { ...remote, origin: { source: 'x trusted read_only', trusted: false } };
    expect(policy.decide({ ...search, origin: { source: 'x', trusted: true } }).kind).toBe('allow');
    expect(policy.decide(odd).kind).toBe('deny');
    expect(policy.decide({ ...search, effect: 'state_change' }).kind).toBe('allow');
  });

  it("invariant 2: narrows, as a run's, that of the application, and the strictest decides", () => {
    const app: Policy = {
      version: 'app',
      allow: ['crm__*', 'mail__*'],
      requireApproval: [{ effects: ['external_side_effect'] }],
    };
    expect(decided(search, app, { allow: ['mail__*'] }).kind).toBe('deny');
    expect(decided(send, app, { allow: ['*'] })).toMatchObject({
      kind: 'require_approval',
      policyVersion: 'app',
    });
    expect(decided(spend, app, { allow: ['*'] }).kind).toBe('deny');
    expect(
      decided(search, app, {
        version: 'run',
        allow: ['*'],
        requireApproval: [{ effects: ['read_only'] }],
      }),
    ).toMatchObject({
      kind: 'require_approval',
      policyVersion: 'run',
    });
  });
});

const ids = fc.constantFrom(
  'crm__search',
  'crm__remove',
  'mail__send',
  'customer_*_getSpend',
  'remote__run',
);
const patterns = fc.array(
  fc.oneof(ids, fc.constantFrom('*', 'crm__*', '*__send', 'customer_*_*', 'remote__*', 'c*')),
  { maxLength: 4 },
);
const effects = fc.subarray([...TOOL_EFFECTS]);
const subjects = fc
  .record({
    declaredId: ids,
    effect: fc.constantFrom(...TOOL_EFFECTS),
    origin: fc.record({ source: fc.constantFrom('discovery', 'remote'), trusted: fc.boolean() }),
  })
  .map((subject) => subjectOf({ ...subject, call: callOf() }));
const anyPolicy: fc.Arbitrary<Policy> = fc.record(
  {
    allow: patterns,
    deny: patterns,
    effects,
    requireApproval: fc.array(fc.record({ effects, tools: patterns }, { requiredKeys: [] }), {
      maxLength: 2,
    }),
  },
  { requiredKeys: ['allow'] },
);
const SEVERITY = { allow: 0, require_approval: 1, deny: 2 };
const severity = (subject: PolicySubject, ...given: Policy[]): number =>
  SEVERITY[decided(subject, ...given).kind];

describe('invariant 2: whatever the policy', () => {
  it('invariant 2: another deny never allows more', () => {
    fc.assert(
      fc.property(anyPolicy, patterns, subjects, (policy, more, subject) => {
        const stricter = { ...policy, deny: [...(policy.deny ?? []), ...more] };
        expect(severity(subject, stricter)).toBeGreaterThanOrEqual(severity(subject, policy));
      }),
      { numRuns: cases(500) },
    );
  });

  it('invariant 2: one allow less never allows more', () => {
    fc.assert(
      fc.property(anyPolicy, subjects, (policy, subject) => {
        expect(
          severity(subject, { ...policy, allow: policy.allow.slice(1) }),
        ).toBeGreaterThanOrEqual(severity(subject, policy));
      }),
      { numRuns: cases(500) },
    );
  });

  it('invariant 2: the policy of a run never widens, and their order makes no difference', () => {
    fc.assert(
      fc.property(anyPolicy, anyPolicy, subjects, (app, own, subject) => {
        const both = severity(subject, app, own);
        expect(both).toBe(Math.max(severity(subject, app), severity(subject, own)));
        expect(both).toBe(severity(subject, own, app));
      }),
      { numRuns: cases(500) },
    );
  });

  it('invariant 2: answers the same when it is asked twice, and in any order', () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.array(subjects, { minLength: 1, maxLength: 6 }),
        (policy, asked) => {
          const compiled = new CompiledPolicy(policy, validators);
          const first = asked.map((subject) => compiled.decide(subject));
          const again = asked.toReversed().map((subject) => compiled.decide(subject));
          expect(again.toReversed()).toEqual(first);
          expect(
            asked.map((subject) => new CompiledPolicy(policy, validators).decide(subject)),
          ).toEqual(first);
        },
      ),
      { numRuns: cases(300) },
    );
  });
});

describe('invariant 3: a policy is data', () => {
  it('invariant 3: decides the same after a trip through JSON', () => {
    fc.assert(
      fc.property(anyPolicy, subjects, (policy, subject) => {
        const read = JSON.parse(JSON.stringify(policy)) as Policy;
        expect(decided(subject, read)).toEqual(decided(subject, policy));
      }),
      { numRuns: cases(500) },
    );
  });

  it('invariant 3: carries its version in every decision, by default a hash that the order of keys does not change', () => {
    const { policyVersion } = decided(search, { allow: ['crm__*'], deny: ['x'] });
    expect(policyVersion).toMatch(/^sha256:[0-9a-f]{16}$/);
    expect(decided(search, { deny: ['x'], allow: ['crm__*'] }).policyVersion).toBe(policyVersion);
    expect(decided(search, { allow: ['crm__*'] }).policyVersion).not.toBe(policyVersion);
  });

  it('invariant 3: stays as it was when it was compiled', () => {
    const allow = ['crm__search'];
    const compiled = new CompiledPolicy({ allow }, validators);
    allow.push('mail__send');
    expect(compiled.decide(send).kind).toBe('deny');
  });
});

describe('policies', () => {
  it.each<[keyof typeof policies, Decision['kind'][]]>([
    ['readOnly', ['allow', 'deny', 'deny', 'deny']],
    ['approveWrites', ['allow', 'require_approval', 'require_approval', 'deny']],
    ['allowAll', ['allow', 'allow', 'allow', 'deny']],
  ])('%s decides on a read, a write, an external effect and an untrusted read', (name, kinds) => {
    expect(
      [search, remove, send, remote].map((subject) => decided(subject, policies[name]).kind),
    ).toEqual(kinds);
  });

  it('can be spread and changed', () => {
    expect(decided(search, { ...policies.readOnly, deny: ['crm__*'] }).kind).toBe('deny');
  });
});
