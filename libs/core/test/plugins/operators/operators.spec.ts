import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ConfigurationError, OperatorError, type ToolLoopOptions } from '@toolloop/core';
import { type OperatorAction } from '@toolloop/core/policy';
import { Operators } from '@toolloop/core/internal';
import { type AuditEntry, MemoryAuditStore, AuditStore } from '@toolloop/core/stores';
import { ScriptedModel, troubled } from '@toolloop/testing';
import { openModule } from '../../fixtures/shop.module.js';

const KEY = 'k'.repeat(32);
const OTTO = { actor: { id: 'otto' }, tenant: 'acme' };
const EVE = { actor: { id: 'eve' }, tenant: 'acme' };

type Rule = NonNullable<ToolLoopOptions['operators']>;

interface Opened {
  readonly operators: Operators;
  readonly audit: (tenant: string) => Promise<readonly AuditEntry[]>;
}

async function opened(rule?: unknown, store: AuditStore = new MemoryAuditStore()): Promise<Opened> {
  const module = await openModule(new ScriptedModel([]), {
    ...(rule !== undefined && { operators: rule as Rule }),
    audit: { key: KEY },
    providers: [{ provide: AuditStore, useValue: store }],
  });
  return {
    operators: module.get(Operators),
    audit: (tenant) => store.read(tenant, { from: 1, limit: 100 }),
  };
}

const isOtto = (actor: unknown): boolean => JSON.stringify(actor) === JSON.stringify(OTTO.actor);
const ofUsage: Rule = (actor, action) => isOtto(actor) && action === 'usage';
const ofAll: Rule = (actor, action) => ofUsage(actor, action) && 'all';

describe('an operator', () => {
  it('does not exist until the application says who is one', async () => {
    const { operators } = await opened();
    expect(operators.may(OTTO, 'usage')).toBe(false);
    await expect(operators.use(OTTO, 'usage')).rejects.toMatchObject({
      name: 'OperatorError',
      code: 'not_permitted',
      action: 'usage',
    });
  });

  it('may what the application says, in the own tenant', async () => {
    const { operators } = await opened(ofUsage);
    await operators.use(OTTO, 'usage');
    await expect(operators.use(OTTO, 'policy')).rejects.toThrow(OperatorError);
    await expect(operators.use(EVE, 'usage')).rejects.toThrow(OperatorError);
    await expect(operators.use(OTTO, 'usage', { tenant: 'globex' })).rejects.toThrow(OperatorError);
  });

  it('may it in every tenant where the application gives the action for all', async () => {
    const { operators } = await opened(ofAll);
    expect(operators.may(OTTO, 'usage', 'globex')).toBe(true);
    await operators.use(OTTO, 'usage', { tenant: 'globex' });
    await expect(operators.use(EVE, 'usage', { tenant: 'globex' })).rejects.toThrow(OperatorError);
  });

  it.each<[string, unknown]>([
    ['a promise of yes', () => Promise.resolve(true)],
    ['a text', () => 'yes'],
    ['a number', () => 1],
    [
      'an exception',
      () => {
        throw new Error('no directory');
      },
    ],
  ])('is not made by %s', async (_, rule) => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue();
    const { operators } = await opened(rule);
    await expect(operators.use(OTTO, 'usage')).rejects.toThrow(OperatorError);
    expect(logged).toHaveBeenCalledTimes(1);
    logged.mockRestore();
  });

  it('is not named in a refusal, which says where operators are named instead', async () => {
    const { operators } = await opened(ofUsage);
    const error: unknown = await operators.use(EVE, 'usage').catch((reason: unknown) => reason);
    expect(String(error)).toContain('ToolLoopModule.forRoot({ operators })');
    expect(String(error)).not.toContain('otto');
  });
});

describe('invariant 14: the use of an operator’s right', () => {
  it('is in the audit of the tenant whose data it is about, with who used it', async () => {
    const { operators, audit } = await opened(ofAll);
    await operators.use(OTTO, 'usage', { details: { from: '2026-11-01' } });
    await operators.use(OTTO, 'usage', { tenant: 'globex' });
    expect(await audit('acme')).toMatchObject([
      {
        kind: 'operator',
        action: 'usage',
        granted: true,
        actorId: 'otto',
        details: { from: '2026-11-01' },
      },
    ]);
    expect(await audit('globex')).toMatchObject([
      { kind: 'operator', granted: true, actorId: 'otto', operatorTenant: 'acme' },
    ]);
  });

  it('is in the audit of the own tenant where it was refused, so that a foreign one cannot be filled', async () => {
    const { operators, audit } = await opened(ofUsage);
    await operators.use(OTTO, 'usage', { tenant: 'globex' }).catch(() => undefined);
    expect(await audit('acme')).toMatchObject([
      { kind: 'operator', action: 'usage', granted: false, ofTenant: 'globex' },
    ]);
    expect(await audit('globex')).toEqual([]);
  });

  it('is kept from happening where it cannot be recorded', async () => {
    const full = troubled(new MemoryAuditStore(), {
      method: 'append',
      answer: () => Promise.reject(new Error('disk full')),
    });
    const { operators } = await opened(ofUsage, full);
    await expect(operators.use(OTTO, 'usage')).rejects.toMatchObject({ name: 'AuditError' });
    await expect(operators.use(EVE, 'usage')).rejects.toThrow(OperatorError);
  });
});

it('keeps an application from starting whose operators are no function', async () => {
  const actions: readonly OperatorAction[] = ['usage'];
  await expect(opened(actions)).rejects.toThrow(ConfigurationError);
});
