import { describe, expect, it } from '@jest/globals';
import type { Decision, Policy } from '@toolloop/core';
import type { PolicyCall, PolicySubject } from '@toolloop/core/policy';
import { CompiledPolicy } from '../../src/policy/compiled-policy.js';
import { decide } from '../../src/policy/decide.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { callOf, subjectOf, taintedFlow } from './subjects.js';

const validators = new SchemaValidators();

function decided(policy: Policy | readonly Policy[], subject: PolicySubject): Decision {
  const policies = [policy].flat();
  return decide(
    policies.map((one) => new CompiledPolicy(one, validators)),
    subject,
  );
}

const pay = subjectOf({
  declaredId: 'bank__pay',
  effect: 'external_side_effect',
  inputSchema: {
    type: 'object',
    properties: { to: { type: 'string' }, amount: { type: 'number' } },
  },
});
const paying = (call: Partial<PolicyCall>): PolicySubject => ({ ...pay, call: callOf(call) });

describe('grants of tenants and roles', () => {
  const policy: Policy = {
    allow: ['crm__*'],
    tenants: { acme: { allow: ['bank__*'] }, globex: { deny: ['crm__search'] } },
    roles: { auditor: { deny: ['bank__*'] }, manager: { allow: ['prices__set'] } },
  };

  it.each<[string, string, string[], Decision['kind'], string]>([
    ['bank__pay', 'acme', [], 'allow', 'tenants.acme.allow: bank__*'],
    ['bank__pay', 'globex', [], 'deny', 'default'],
    ['crm__search', 'globex', ['manager'], 'deny', 'tenants.globex.deny: crm__search'],
    ['bank__pay', 'acme', ['auditor', 'manager'], 'deny', 'roles.auditor.deny: bank__*'],
    ['prices__set', 'acme', ['manager'], 'allow', 'roles.manager.allow: prices__set'],
    ['prices__set', 'acme', ['staff'], 'deny', 'default'],
    ['prices__set', 'constructor', ['__proto__', 'toString'], 'deny', 'default'],
  ])('`%s` decides for %s as %j: %s', (declaredId, tenant, roles, kind, rule) => {
    expect(decided(policy, subjectOf({ declaredId, actor: { tenant, roles } }))).toMatchObject({
      kind,
      rule,
    });
  });

  it('are not mixed up between those who ask one after the other', () => {
    const compiled = new CompiledPolicy(policy, validators);
    const asked = (tenant: string) =>
      compiled.decide(subjectOf({ declaredId: 'bank__pay', actor: { tenant, roles: [] } })).kind;
    expect(['acme', 'globex', 'acme', 'initech'].map(asked)).toEqual([
      'allow',
      'deny',
      'allow',
      'deny',
    ]);
  });
});

describe('rules for approval', () => {
  it('hold where everything they name holds', () => {
    const policy: Policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [
        {
          tools: ['bank__*'],
          arguments: { properties: { amount: { minimum: 100 } } },
          reason: 'Large.',
        },
      ],
    };
    expect(decided(policy, paying({ args: { amount: 99 } })).kind).toBe('allow');
    expect(decided(policy, paying({ args: { amount: 100 } }))).toMatchObject({
      kind: 'require_approval',
      reason: 'Large.',
    });
    expect(
      decided(policy, { ...paying({ args: { amount: 100 } }), declaredId: 'crm__x' }).kind,
    ).toBe('allow');
  });

  it('do not fill defaults into what they look at', () => {
    const args = {};
    decided(
      { allow: ['*'], requireApproval: [{ arguments: { properties: { to: { default: 'x' } } } }] },
      paying({ args }),
    );
    expect(args).toEqual({});
  });

  it('may hold for tainted runs only', () => {
    const policy: Policy = { allow: ['*'], flow: 'off', requireApproval: [{ tainted: true }] };
    expect(decided(policy, paying({})).kind).toBe('allow');
    expect(decided(policy, paying({ flow: taintedFlow() })).kind).toBe('require_approval');
  });

  it('ask of an approver what every rule and every policy asks', () => {
    const app: Policy = {
      allow: ['*'],
      requireApproval: [{ roles: ['manager'] }, { tools: ['bank__*'], notRequester: true }],
    };
    const own: Policy = { allow: ['*'], requireApproval: [{ mayEdit: true }] };
    expect(decided([own, app], paying({})).approval).toEqual([
      { mayEdit: true },
      { roles: ['manager'] },
      { notRequester: true },
    ]);
  });

  it('say nothing of what is listed only', () => {
    expect(decided({ allow: ['*'], requireApproval: [{}] }, pay).kind).toBe('allow');
  });
});

const spent = (...amounts: number[]) => ({
  calls: amounts.map((amount) => ({ declaredId: 'bank__pay', trusted: true, args: { amount } })),
  tokens: 0,
  usd: 0,
});

describe('budgets of a run', () => {
  const sum: Policy = {
    allow: ['*'],
    flow: 'off',
    runBudgets: [{ tools: ['bank__*'], sum: { argument: '/amount', most: 100 } }],
  };

  it('stop small steps under a threshold', () => {
    expect(decided(sum, paying({ args: { amount: 40 }, spent: spent(30, 30) })).kind).toBe('allow');
    expect(decided(sum, paying({ args: { amount: 41 }, spent: spent(30, 30) }))).toEqual({
      kind: 'deny',
      rule: 'runBudgets[0]',
      reason: 'The sum over /amount would exceed 100, the limit of a run.',
      isOverBudget: true,
      policyVersion: expect.any(String),
    });
  });

  it('are not refilled by negative amounts', () => {
    expect(decided(sum, paying({ args: { amount: 90 }, spent: spent(-80) })).kind).toBe('deny');
  });

  it('count the calls of the tools they name', () => {
    const policy: Policy = {
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['bank__pay'], calls: 2 }],
    };
    expect(decided(policy, paying({ spent: spent(1) })).kind).toBe('allow');
    expect(decided(policy, paying({ spent: spent(1, 1) })).kind).toBe('deny');
    expect(
      decided(policy, { ...paying({ spent: spent(1, 1) }), declaredId: 'bank__read' }).kind,
    ).toBe('allow');
  });

  it('may ask instead of denying', () => {
    const policy: Policy = { allow: ['*'], runBudgets: [{ calls: 0, beyond: 'ask' }] };
    expect(decided(policy, paying({})).kind).toBe('require_approval');
  });

  it.each([{ tokens: 10 }, { usd: 0.5 }])('hold for %j', (budget) => {
    const policy: Policy = { allow: ['*'], flow: 'off', runBudgets: [budget] };
    expect(decided(policy, paying({ spent: { calls: [], tokens: 10, usd: 0.5 } })).kind).toBe(
      'allow',
    );
    expect(decided(policy, paying({ spent: { calls: [], tokens: 11, usd: 0.51 } })).kind).toBe(
      'deny',
    );
  });
});

describe('a policy in shadow', () => {
  it('is told in the decision and decides nothing', () => {
    const shadow: Policy = { version: 'next', allow: [], shadow: true };
    expect(decided([{ allow: ['*'], flow: 'off' }, shadow], paying({}))).toMatchObject({
      kind: 'allow',
      shadow: [{ kind: 'deny', rule: 'default', policyVersion: 'next' }],
    });
  });

  it('invariant 2: allows nothing where no other policy does', () => {
    expect(decided({ allow: ['*'], shadow: true }, paying({}))).toMatchObject({
      kind: 'deny',
      reason: 'There is no policy.',
    });
  });
});

describe('an engine that fails', () => {
  it('invariant 2: denies', () => {
    const broken = {
      decide: () => {
        throw new Error('unreachable');
      },
    };
    expect(decide([new CompiledPolicy({ allow: ['*'] }, validators), broken], pay).kind).toBe(
      'deny',
    );
  });
});
