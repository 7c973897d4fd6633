import type { Served } from './served-app.js';

/** The answer to someone who is not the owner: a status, or a list without what is not theirs. */
export type Answer = number | 'nothing of it';

/**
 * A route with the answers to a person of another tenant, and to a colleague without an operator's
 * permission.
 */
export type Row = readonly [
  method: string,
  path: string,
  otherTenant: Answer,
  colleague: Answer,
  body?: object,
];

const ASK = { message: 'hi' };

/** What is open to every caller, whose own runs it begins. */
const OWN: readonly Row[] = [
  ['POST', '/chat', 'nothing of it', 'nothing of it', ASK],
  ['GET', '/chat/stream?message=hi', 'nothing of it', 'nothing of it'],
  ['POST', '/chat/answer', 'nothing of it', 'nothing of it', ASK],
  [
    'POST',
    '/ai/chat',
    'nothing of it',
    'nothing of it',
    { id: 'CHAT', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }] },
  ],
  [
    'POST',
    '/ai/agui',
    'nothing of it',
    'nothing of it',
    { threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hi' }] },
  ],
  [
    'POST',
    '/ai/assistant',
    'nothing of it',
    'nothing of it',
    { commands: [{ type: 'add-message', message: { parts: [{ type: 'text', text: 'hi' }] } }] },
  ],
  [
    'POST',
    '/ai/data-stream',
    'nothing of it',
    'nothing of it',
    { messages: [{ role: 'user', content: 'hi' }] },
  ],
  ['GET', '/v1/models', 'nothing of it', 'nothing of it'],
  ['GET', '/v1/models/toolloop', 'nothing of it', 'nothing of it'],
  [
    'POST',
    '/v1/chat/completions',
    'nothing of it',
    'nothing of it',
    { model: 'toolloop', messages: [{ role: 'user', content: 'hi' }] },
  ],
  ['POST', '/runs', 400, 400, ASK], // needs a storage of durable runs
  ['GET', '/tools', 'nothing of it', 'nothing of it'],
  ['POST', '/tools/notes__read', 'nothing of it', 'nothing of it', { args: { id: 'n-1' } }],
];

/** What has an owner: alice of acme. */
const OWNED: readonly Row[] = [
  ['GET', '/ai/chat/CHAT/stream', 204, 204],
  ['POST', '/ai/agui/connect', 204, 204, { threadId: 'CHAT', runId: 'r', messages: [] }],
  ['POST', '/ai/assistant/resume', 204, 204, { threadId: 'CHAT', commands: [] }],
  ['POST', '/ai/assistant/resume-state', 204, 204, { threadId: 'CHAT' }],
  [
    'POST',
    '/v1/chat/completions',
    409,
    409,
    {
      model: 'toolloop',
      messages: [{ role: 'tool', tool_call_id: 'APPROVAL', content: '{"approved":true}' }],
    },
  ],
  [
    'POST',
    '/ai/agui',
    409,
    409,
    {
      threadId: 't',
      runId: 'r',
      messages: [],
      resume: [{ interruptId: 'APPROVAL', payload: { approved: true } }],
    },
  ],
  ['GET', '/runs', 'nothing of it', 'nothing of it'],
  ['GET', '/runs/RUN', 404, 404],
  ['GET', '/runs/RUN/events', 404, 404],
  ['POST', '/runs/RUN/resume', 404, 404],
  ['POST', '/runs/RUN/resume/answer', 404, 404],
  ['POST', '/runs/RUN/answer', 404, 404, { approvalId: 'APPROVAL', decision: 'approve' }],
  ['POST', '/runs/RUN/cancel', 404, 404, {}],
  ['POST', '/runs/RUN/fork', 400, 400, { step: 0 }], // needs a storage of durable runs
  ['POST', '/runs/RUN/undo', 404, 404, {}],
  ['GET', '/pending', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals/groups', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals/APPROVAL', 404, 404],
  ['POST', '/approvals/APPROVAL', 404, 404, { decision: 'approve' }],
  ['GET', '/questions', 'nothing of it', 'nothing of it'],
  ['POST', '/questions/APPROVAL', 404, 404, { answer: 1 }],
  ['GET', '/conversations', 'nothing of it', 'nothing of it'],
  ['GET', '/conversations/talk', 404, 404],
  ['DELETE', '/conversations/talk', 404, 404],
  ['GET', '/directives', 'nothing of it', 'nothing of it'],
  ['GET', '/directives/none', 404, 404],
  ['POST', '/directives/none/cancel', 404, 404, {}],
  ['POST', '/directives/none/redrive', 404, 404, {}],
  ['GET', '/usage?tenant=acme&actor=alice', 403, 403],
];

const REASON = { reason: 'A test.' };

/** What needs an operator's permission. */
export const OPERATED: readonly Row[] = [
  ['GET', '/runs?actorId=alice', 403, 403],
  ['GET', '/runs?ofTenant=true', 403, 403],
  ['POST', '/runs/RUN/rehearse', 403, 403, { policy: 'strict' }],
  ['GET', '/runs/RUN/rehearsal?policy=strict', 403, 403],
  ['GET', '/rehearsals', 403, 403],
  ['GET', '/sources', 403, 403],
  ['POST', '/sources/notes/refresh', 403, 403],
  ['GET', '/view-as/alice', 403, 403],
  ['GET', '/explain/notes__read', 403, 403],
  ['GET', '/policies', 403, 403],
  ['POST', '/policies', 403, 403, { policy: { version: 'x', allow: [] }, expected: 0, ...REASON }],
  ['GET', '/policies/diff?from=0&to=0', 403, 403],
  ['GET', '/policies/stops', 403, 403],
  ['POST', '/policies/stops', 403, 403, { tool: 'notes__read', ...REASON }],
  ['POST', '/policies/stops/none/release', 403, 403, REASON],
  ['POST', '/policies/replay', 403, 403, { runs: [] }],
  ['GET', '/policies/0', 403, 403],
  ['POST', '/policies/0/rollback', 403, 403, { expected: 0, ...REASON }],
  ['GET', '/audit', 403, 403],
  ['GET', '/audit/head', 403, 403],
];

/** Every route but those of `health`. */
export const ROWS = [...OWN, ...OWNED, ...OPERATED];

/** A layer of Express's router. */
interface Layer {
  readonly route?: { readonly path: string; readonly methods: Readonly<Record<string, boolean>> };
}

/** Every route that Express serves, as `GET /runs/:runId`. */
export function routesOf({ app }: Served): string[] {
  const express = app.getHttpAdapter().getInstance() as {
    readonly router: { readonly stack: readonly Layer[] };
  };
  return express.router.stack.flatMap(({ route }) =>
    route
      ? Object.keys(route.methods).map((method) => `${method.toUpperCase()} ${route.path}`)
      : [],
  );
}

/** Tells if a row is about a route, such as `GET /runs/:runId`. */
export function matches(route: string, [method, path]: Row): boolean {
  const [routeMethod = '', routePath = ''] = route.split(' ');
  const parts = (path.split('?')[0] ?? '').split('/');
  const wanted = routePath.split('/');
  const isSame = (part: string, index: number): boolean =>
    part === parts[index] || (part.startsWith(':') && parts[index] !== undefined);
  return method === routeMethod && wanted.length === parts.length && wanted.every(isSame);
}
