import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { BadRequestException, Injectable } from '@nestjs/common';
import {
  ConnectionBroker,
  type Credential,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { Subject, firstValueFrom } from 'rxjs';
import { Bench, errorOf, type RunOptions } from '../../call/bench.js';

const SECRET = 'tok-ACME-9"f/3';
const use = { description: 'Uses a connection.', effect: 'read_only', reveal: 'all' } as const;
const ID = { description: 'Which connection.' };

/** What a tool makes of its credential, as each test says it. */
let act: (credential: Credential, context: ToolCallContext) => unknown;
let kept: ToolCallContext | undefined;

@Injectable()
@ToolProvider({ namespace: 'mail' })
class MailTools {
  @LlmTool(use) async read(
    @ToolParam('id', ID) id: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<unknown> {
    kept = context;
    return act(await context.connection(id), context);
  }

  @LlmTool({ ...use, effect: 'state_change' }) async send(
    @ToolParam('id', ID) id: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<unknown> {
    return act(await context.connection(id), context);
  }
}

/** Each connection belongs to one tenant. */
class Broker extends ConnectionBroker {
  private readonly owners = new Map([
    ['acme-mail', 'acme'],
    ['globex-mail', 'globex'],
  ]);

  override resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
    if (this.owners.get(connectionId) !== tenant)
      return Promise.reject(new Error(`${connectionId} is not of ${tenant}`));
    return Promise.resolve({ connectionId, token: tenant === 'acme' ? SECRET : 'tok-globex' });
  }
}

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start({
    providers: [MailTools],
    options: { audit: { key: 'k'.repeat(32) } },
    ports: [{ provide: ConnectionBroker, useClass: Broker }],
  });
  act = ({ connectionId }) => connectionId;
});

/** Everything that anybody could read of a call. */
async function told(
  name: string,
  options: RunOptions = {},
): Promise<{ readonly all: string; readonly content: string }> {
  const run = bench.run(options);
  const outcome = await run.exec(`mail__${name}`, { id: 'acme-mail' });
  const store: AuditStore = bench.module.get(AuditStore);
  const audit = await store.read('acme', { from: 1, limit: 100 });
  expect(audit.length).toBeGreaterThan(0);
  const logged = inspect(bench.logger.lines, { depth: 20, showHidden: true });
  return {
    all: JSON.stringify([outcome.record, outcome.content, run.events, audit]) + logged,
    content: outcome.content,
  };
}

describe('a connection', () => {
  it.each<[string, string, string]>([
    ['acme', 'acme-mail', 'succeeded'],
    ['acme', 'globex-mail', 'failed'],
    ['globex', 'globex-mail', 'succeeded'],
    ['globex', 'acme-mail', 'failed'],
    ['acme', '__proto__', 'failed'],
  ])('invariant 9: is not available to %s by its name: %s %s', async (tenant, id, status) => {
    const outcome = await bench.run({ tenant }).exec('mail__read', { id });
    expect(outcome.record.status).toBe(status);
    expect(outcome.content).not.toContain('is not of');
  });

  it('is forbidden when no rule of the policy lets the tool use it, and the broker is not asked', async () => {
    const policies = [
      { allow: ['*'], connections: [{ tools: ['mail__send'], connections: ['acme-*'] }] },
    ];
    const refused = await bench.run({ policies }).exec('mail__read', { id: 'acme-mail' });
    expect(errorOf(refused)).toMatchObject({ code: 'forbidden', status: '403' });
    expect(refused.record.status).toBe('denied');
    expect((await bench.run({ policies }).exec('mail__send', { id: 'acme-mail' })).content).toBe(
      'acme-mail',
    );
    expect(
      (
        await bench
          .run({ policies, requestId: 'another' })
          .exec('mail__send', { id: 'globex-mail' })
      ).record.error?.code,
    ).toBe('forbidden');
  });

  it('is refused to the tool, which may continue without it', async () => {
    const policies = [
      { allow: ['*'], connections: [{ tools: ['mail__read'], connections: ['acme-mail'] }] },
    ];
    act = async (_, context) =>
      context.connection('other').catch((error: Error) => `caught: ${error.name}`);
    expect((await bench.run({ policies }).exec('mail__read', { id: 'acme-mail' })).content).toBe(
      'caught: CallFailure',
    );
  });

  it('cannot be had once the call is over', async () => {
    await bench.run().exec('mail__read', { id: 'acme-mail' });
    await expect(kept?.connection('acme-mail')).rejects.toThrow('The call call_1 is over.');
  });

  it('is not handed out when it comes after the end of the call', async () => {
    const answers = new Subject<Credential>();
    class SlowBroker extends ConnectionBroker {
      override resolve(): Promise<Credential> {
        return firstValueFrom(answers);
      }
    }
    const slow = await Bench.start({
      providers: [MailTools],
      ports: [{ provide: ConnectionBroker, useClass: SlowBroker }],
    });
    let hasCredential = false;
    act = () => (hasCredential = true);
    const outcome = await slow
      .run({ limits: { toolCallMs: 10 } })
      .exec('mail__read', { id: 'acme-mail' });
    expect(outcome.record.error?.code).toBe('timeout');
    answers.next({ connectionId: 'acme-mail', token: SECRET });
    await setImmediate();
    expect(hasCredential).toBe(false);
  });
});

describe('invariant 10: a credential', () => {
  it('invariant 10: works during the call, and not afterwards', async () => {
    let credential: Credential | undefined;
    let worked = false;
    act = (one) => {
      credential = one;
      worked = one.token === SECRET;
    };
    await bench.run().exec('mail__read', { id: 'acme-mail' });
    expect(worked).toBe(true);
    expect(() => credential?.token).toThrow('is over');
  });

  it('invariant 10: never prints', async () => {
    let printed = '';
    act = (credential) => {
      printed = [
        JSON.stringify({ credential }),
        inspect({ credential }, { showHidden: true }),
        `a ${credential as unknown as string}`,
      ].join(' ');
    };
    await bench.run().exec('mail__read', { id: 'acme-mail' });
    expect(printed).toContain('[secret]');
    expect(printed).not.toContain('ACME');
  });

  it.each(['', 'a', 'me', 'ada', 'user'])(
    'invariant 10: is not told in base64 behind a name, as in the header of %p',
    async (name) => {
      act = ({ token }) => [
        Buffer.from(`${name}:${token}`).toString('base64'),
        Buffer.from(`${name}:${token}:more`).toString('base64url'),
      ];
      const { all, content } = await told('read');
      expect(content).toContain('[secret]');
      const pieces = [...all.matchAll(/[A-Za-z0-9+/_=-]{4,}/g)].map(([piece]) =>
        Buffer.from(piece, 'base64').toString(),
      );
      expect(pieces.join(' ')).not.toContain('ACME');
    },
  );

  it.each<[string, typeof act]>([
    ['a result', ({ token }) => ({ nested: [`Bearer ${token}`], [token]: 1 })],
    ['a text', ({ token }) => `GET /?key=${encodeURIComponent(token)}`],
    ['base64', ({ token }) => ({ header: `Basic ${Buffer.from(token).toString('base64')}` })],
    [
      'base64 without padding, for an address',
      ({ token }) => `/?key=${Buffer.from(token).toString('base64url')}`,
    ],
    ['JSON in a text', (credential) => JSON.stringify({ token: credential.token })],
    [
      'an exception',
      ({ token }) => {
        throw new Error(`401 for ${token}`, { cause: { headers: { authorization: token } } });
      },
    ],
    [
      'an error for the model',
      ({ token }) => {
        throw new ToolError(`The key ${token} is wrong.`);
      },
    ],
    [
      'an answer of HTTP',
      ({ token }) => {
        throw new BadRequestException(`The key ${token} is wrong.`);
      },
    ],
    [
      'something thrown that is no error',
      ({ token }) => {
        throw { request: { token } } as unknown as Error;
      },
    ],
    ['progress', ({ token }, context) => context.progress({ token })],
    [
      'its log',
      ({ token }, context) => {
        context.logger.warn(`using ${token}`, { token });
        context.logger.error(new Error(token));
      },
    ],
    [
      'what cannot be projected',
      ({ token }) => ({
        get broken(): never {
          throw new Error(token);
        },
      }),
    ],
    ['the credential itself', (credential) => ({ credential })],
    [
      'a stream',
      async function* ({ token }) {
        yield await Promise.resolve(token);
        yield `${token} done`;
      },
    ],
  ])('invariant 10: is in nothing that anybody reads: %s', async (_, doing) => {
    act = doing;
    for (const name of ['read', 'send']) {
      const { all } = await told(name);
      expect(all).not.toContain('ACME');
    }
  });

  it('invariant 13: leaves it unknown whether a call took place that cannot tell', async () => {
    act = ({ token }) => {
      throw new ToolError(`The connection with ${token} broke.`, { isOutcomeUnknown: true });
    };
    const { record, content } = await bench.run().exec('mail__send', { id: 'acme-mail' });
    expect([record.error?.code, content]).toEqual([
      'unknown_outcome',
      expect.stringContaining('The connection with [secret] broke.'),
    ]);
  });

  it('invariant 10: leaves the words round it, and what kind of error it was', async () => {
    act = ({ token }) => {
      throw new ToolError(`The key ${token} is wrong.`, { retryable: true });
    };
    expect((await told('read')).content).toContain('The key [secret] is wrong.');
    expect(
      (await bench.run({ retry: true }).exec('mail__read', { id: 'acme-mail' })).record,
    ).toMatchObject({
      attempt: 3,
      error: { code: 'execution_failed', retryable: true },
    });
  });
});
