import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import { tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import type { JsonObject } from '@toolloop/protocol';
import {
  auditOf,
  call,
  calls,
  collect,
  ExpectationError,
  expectAudit,
  expectDenied,
  runTwoTenants,
  ScriptedModel,
  ScriptedTool,
  type ScriptedTurn,
  text,
  type ToolLoopMatchers,
  toolLoopMatchers,
  ToolLoopTestingModule,
} from '@toolloop/testing';

declare module 'expect' {
  interface Matchers<R> extends ToolLoopMatchers<R> {}
}
expect.extend(toolLoopMatchers);

const CUSTOMERS: Readonly<Record<string, string>> = { acme: 'Ada', globex: 'Grace' };
const INPUT = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 2 } },
  required: ['name'],
  additionalProperties: false,
} as const;

const declared = (
  id: string,
  execute: (input: JsonObject, context: { readonly tenant: string }) => unknown,
) =>
  tool({
    id,
    description: `Is ${id}.`,
    effect: 'read_only',
    input: { ...INPUT, required: ['name'] },
    reveal: 'all',
    execute,
  });

const turns: ScriptedTurn[] = [
  ({ messages }) => {
    const asked = messages.find(({ role }) => role === 'user')?.content;
    const [, id = '', name = ''] = typeof asked === 'string' ? asked.split(' ') : [];
    return calls(call(id, { name }));
  },
  text('Done.'),
];
const model = new ScriptedModel(turns, { perRun: true });

describe('the harness of an application', () => {
  let app: TestingModule;
  let refund: ScriptedTool;
  let leak = false;
  beforeAll(async () => {
    refund = new ScriptedTool([
      { args: { name: 'Ada' }, returns: 'refunded' },
      { args: { name: 'Bob' }, returns: () => 'refunded too' },
    ]);
    app = await ToolLoopTestingModule.create({
      imports: [
        ToolLoopModule.forRoot({
          model,
          audit: { key: 'k'.repeat(32) },
          policy: { allow: ['crm__*'], deny: ['crm__forbidden'] },
          tools: [
            declared('crm__refund', () => 'never'),
            declared('crm__forbidden', () => 'never'),
            declared('crm__customers', (_, { tenant }) =>
              leak ? Object.values(CUSTOMERS) : [CUSTOMERS[tenant]],
            ),
          ],
        }),
      ],
    })
      .override('crm__refund')
      .with(refund)
      .compile();
    app.useLogger(false);
    await app.init();
  });
  afterAll(() => app.close());

  const run = (prompt: string) =>
    app.get(ToolLoopService).run({ prompt, actor: { id: 'ann' }, tenant: 'acme' });

  it('gives a strict tool the calls that it is to have, behind validation', async () => {
    expect((await run('Call crm__refund Bob')).toolCalls[0]).toMatchObject({
      status: 'succeeded',
      result: 'refunded too',
    });
    expect((await run('Call crm__refund A')).toolCalls[0]).toMatchObject({
      error: { code: 'invalid_args' },
    });
    expect(() => refund.assertComplete()).toThrow('1 of its 2 calls. Not made: {"name":"Ada"}');
  });

  it('fails a call of a strict tool that it is not to have, with the places that differ', async () => {
    expect((await run('Call crm__refund Eve')).toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed' },
    });
    expect(() => refund.assertComplete()).toThrow(
      'The tool was called with {"name":"Eve"}. The closest call that it is to have differs in:\n  name\n    expected  "Ada"\n    called    "Eve"',
    );
  });

  it('finds an entry in the audit, and shows the closest one where there is none', async () => {
    await run('Call crm__customers all');
    const audit = await auditOf(app.get(AuditTrail), 'acme');
    expectAudit(audit, {
      kind: 'decision',
      declaredId: 'crm__customers',
      decision: { kind: 'allow' },
    });
    const wrong = (): void =>
      expectAudit(audit, {
        kind: 'decision',
        declaredId: 'crm__customers',
        decision: { kind: 'deny' },
      });
    expect(wrong).toThrow(ExpectationError);
    expect(wrong).toThrow(/decision\.kind\n {4}expected {2}"deny"\n {4}found {5}"allow"/);
    expect(() => expectAudit([], { kind: 'denied' })).toThrow('It is empty.');
  });

  it('has its expectations as matchers, which say the same', async () => {
    const events = await collect(
      app
        .get(ToolLoopService)
        .stream({ prompt: 'Call crm__forbidden Ada', actor: { id: 'ann' }, tenant: 'acme' }),
    );
    expect(events).toHaveDenied('crm__forbidden', 'policy_denied');
    expect(events).not.toHaveDenied('crm__customers');
    expect(events).toEndOnce();
    expect(await run('Call crm__customers Ada')).toHaveValidTranscript();
    expect(await auditOf(app.get(AuditTrail), 'acme')).toHaveAudited({
      kind: 'outcome',
      status: 'succeeded',
    });
    const { pass, message } = toolLoopMatchers.toHaveDenied(events, 'crm__customers');
    expect(pass).toBe(false);
    expect(() => expectDenied(events, 'crm__customers')).toThrow(message());
    expect(() => expect(events).not.toHaveDenied('crm__forbidden')).toThrow(
      'Expected not crm__forbidden to have been denied.',
    );
  });

  it('runs two tenants at once, and finds that neither sees the other', async () => {
    const asked = { prompt: 'Call crm__customers all', actor: { id: 'ann' } };
    const cases = [
      { ...asked, tenant: 'acme', marks: ['Ada'] },
      { ...asked, tenant: 'globex', marks: ['Grace'] },
    ] as const;
    const [one] = await runTwoTenants(app, [
      { ...cases[0], marks: ['Ada'] },
      { ...cases[1], marks: ['Grace'] },
    ]);
    expect(one.result.finishReason).toBe('stop');
    leak = true;
    await expect(
      runTwoTenants(app, [
        { ...cases[0], marks: ['Ada'] },
        { ...cases[1], marks: ['Grace'] },
      ]),
    ).rejects.toThrow(/acme saw "Grace" of globex, in event \d+ \(tool-result\)/);
    leak = false;
    await expect(
      runTwoTenants(app, [
        { ...cases[0], marks: ['Bob'] },
        { ...cases[1], marks: ['Grace'] },
      ]),
    ).rejects.toThrow('showed nothing of "Bob"');
    await expect(
      runTwoTenants(app, [
        { ...cases[0], marks: ['Ada'] },
        { ...cases[0], marks: ['Ada'] },
      ]),
    ).rejects.toThrow('another tenant');
  });
});
