import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue, RehearsalRequest } from '@toolloop/protocol';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, closeApps, headersOf, type Served, serveApp } from './served-app.js';

afterAll(closeApps);

/**
 * A front end: its request for a rehearsal, and the one that says `said` about what it was asked.
 */
interface FrontEnd {
  readonly path: string;
  readonly asks: JsonObject;
  says(asked: RehearsalRequest, said: JsonObject): JsonObject;
  /** What approves, and what does not although it looks like it. */
  readonly yes: JsonObject;
  readonly noYes: JsonObject;
}

const YES = { approved: true };
const NO_YES = { deleted: 'n-1' };
const CHAT = { id: 'ai-sdk' };
const THREAD = { threadId: 'ag-ui' };
const TRANSPORT: JsonObject = { state: { messages: [] }, threadId: 'transport' };
const userSays = (parts: JsonValue): JsonObject => ({ id: 'u1', role: 'user', parts });
const DELETE_IT = [{ type: 'text', text: 'Delete it' }];

const FRONT_ENDS: readonly (readonly [string, FrontEnd])[] = [
  [
    'AG-UI',
    {
      path: '/ai/agui',
      asks: {
        ...THREAD,
        runId: 'r1',
        messages: [{ id: 'u1', role: 'user', content: 'Delete it' }],
        forwardedProps: { rehearse: true },
      },
      says: ({ rehearsalId }, payload) => ({
        ...THREAD,
        runId: 'r2',
        messages: [],
        resume: [{ interruptId: rehearsalId, status: 'resolved', payload }],
      }),
      yes: YES,
      noYes: NO_YES,
    },
  ],
  [
    'the AI SDK',
    {
      path: '/ai/chat',
      asks: { ...CHAT, messages: [userSays(DELETE_IT)], rehearse: true },
      says: ({ rehearsalId: id, runId }, said) => ({
        ...CHAT,
        messages: [
          {
            id: runId,
            role: 'assistant',
            parts: [{ type: 'data-rehearsal', id, data: { rehearsalId: id, ...said } }],
          },
        ],
      }),
      yes: { decision: 'approve', reason: 'As shown.' },
      noYes: { decision: 'answer', approved: true },
    },
  ],
  [
    'the assistant transport',
    {
      path: '/ai/assistant',
      asks: {
        ...TRANSPORT,
        rehearse: true,
        commands: [{ type: 'add-message', message: userSays(DELETE_IT) }],
      },
      says: ({ rehearsalId }, result) => ({
        ...TRANSPORT,
        commands: [{ type: 'add-tool-result', toolCallId: rehearsalId, result }],
      }),
      yes: YES,
      noYes: NO_YES,
    },
  ],
];

describe('a rehearsal that a front end asks for', () => {
  const model = new ScriptedModel(
    FRONT_ENDS.flatMap(() => [
      calls(call('notes__delete', { id: 'n-1' })),
      text('It can be deleted.'),
    ]),
  );
  let served: Served;
  beforeAll(async () => {
    served = await serveApp({ model });
  });

  const waiting = async (): Promise<readonly { readonly request: RehearsalRequest }[]> => {
    const response = await fetch(`${served.url}/pending?kind=rehearsal`, {
      headers: headersOf('alice'),
    });
    return (await response.json()) as readonly { readonly request: RehearsalRequest }[];
  };

  it.each(FRONT_ENDS)(
    'is shown by %s, and performed once where it is approved, and only then',
    async (_, front) => {
      const { path, asks, yes, noYes } = front;
      const shown = await (await ask(served, 'alice', asks, path)).text();
      const [{ request } = { request: undefined }, ...more] = await waiting();
      if (!request) throw new Error('Nothing waits.');
      expect([shown, more]).toEqual([expect.stringContaining(request.rehearsalId), []]);
      expect(shown).not.toContain('deleted n-1');
      await (await ask(served, 'alice', front.says(request, noYes), path)).text();
      await (await ask(served, 'carl', front.says(request, yes), path)).text();
      expect(await waiting()).toHaveLength(1);
      const performed = await ask(served, 'alice', front.says(request, yes), path);
      expect([performed.status, await performed.text()]).toEqual([
        200,
        expect.stringContaining('deleted n-1'),
      ]);
      const again = await (await ask(served, 'alice', front.says(request, yes), path)).text();
      expect([again, await waiting()]).toEqual([expect.not.stringContaining('deleted n-1'), []]);
    },
  );
});

describe('a run that is not durable and has ended', () => {
  it('says where it is rehearsed that nothing of it is stored and what to do, to the operator whose run it is, and to others what they read of a run that is not there', async () => {
    const served = await serveApp({ model: new ScriptedModel([text('Done.')]) });
    await (await ask(served, 'ops', { message: 'Go on.' })).text();
    const [run] = (await (
      await fetch(`${served.url}/runs`, { headers: headersOf('ops') })
    ).json()) as { readonly runId: string }[];
    const runId = run?.runId ?? '';
    const told = async (person: string, id: string): Promise<readonly [number, string]> => {
      const response = await ask(served, person, { policy: 'strict' }, `/runs/${id}/rehearse`);
      return [response.status, JSON.stringify(await response.json())];
    };
    expect(await told('ops', runId)).toEqual([
      404,
      expect.stringMatching(/is not durable: nothing is stored.*\\"durable\\": true/),
    ]);
    expect(await told('ops', 'nowhere')).toEqual([404, expect.not.stringContaining('durable')]);
    const refused = await told('alice', runId);
    expect(refused).toEqual([403, expect.not.stringContaining('durable')]);
    const compared = await fetch(`${served.url}/runs/${runId}/rehearsal?policy=strict`, {
      headers: headersOf('ops'),
    });
    expect([compared.status, await compared.text()]).toEqual([
      404,
      expect.stringContaining('is not durable'),
    ]);
  });

  it.each([
    ['undo', 'cannot be undone. Undo its directives one by one'],
    ['resume', 'cannot be resumed. Its events are read by'],
    ['resume/answer', 'cannot be resumed. Its events are read by'],
  ])(
    'says the same to the person whose run it is where it is asked to %s, and to others that there is none of theirs',
    async (path, said) => {
      const served = await serveApp({ model: new ScriptedModel([text('Done.')]) });
      await (await ask(served, 'alice', { message: 'Go on.' })).text();
      const [run] = (await (
        await fetch(`${served.url}/runs`, { headers: headersOf('alice') })
      ).json()) as { readonly runId: string }[];
      for (const [person, told] of [
        ['alice', said],
        ['carl', 'of yours'],
      ] as const) {
        const response = await ask(served, person, {}, `/runs/${run?.runId ?? ''}/${path}`);
        expect([person, response.status, await response.text()]).toEqual([
          person,
          404,
          expect.stringContaining(told),
        ]);
      }
    },
  );

  it('is as it was where it has ended and is cancelled', async () => {
    const served = await serveApp({ model: new ScriptedModel([text('Done.')]) });
    await (await ask(served, 'alice', { message: 'Go on.' })).text();
    const [run] = (await (
      await fetch(`${served.url}/runs`, { headers: headersOf('alice') })
    ).json()) as { readonly runId: string }[];
    const cancelled = await ask(served, 'alice', {}, `/runs/${run?.runId ?? ''}/cancel`);
    expect([cancelled.status, await cancelled.json()]).toEqual([202, run]);
    expect((await ask(served, 'carl', {}, `/runs/${run?.runId ?? ''}/cancel`)).status).toBe(404);
  });
});
