import { PendingError, type PendingService } from '@toolloop/core';
import type { Respondent } from '@toolloop/core/loop';
import { type ApprovalRequest, isObject } from '@toolloop/protocol';
import type { Asked } from './http-requests.js';
import type { McpServerOptions } from './server-options.js';

/** The visit of a page: the approval it is about, and the form that was sent. */
export interface ApprovalAsked {
  readonly approvalId: string;
  readonly body: unknown;
}

interface Answering {
  readonly options: Pick<McpServerOptions, 'approver' | 'verifier'>;
  readonly pending: PendingService;
}

/**
 * Shows a call to a person and takes the decision. Who visits is asked of the application each time; a token of an MCP client identifies no one here, since the client
 * would approve its own calls with it.
 */
export async function approvalPage(asked: Asked, { approvalId, body }: ApprovalAsked, { options, pending }: Answering): Promise<Response> {
  const { approver } = options;
  if (!approver || !METHODS.has(asked.method)) return page(404, '<p>There is no such page.</p>');
  const form = formIn(asked, body);
  const credential = textIn(form['credential']);
  const refused = await refusal(asked, credential, options);
  if (refused !== undefined) return page(403, `<p>${refused}</p>`);
  const { authorization: _, ...headers } = asked.headers;
  const person = await approver({ headers, ...(credential !== undefined && { credential }) });
  if (!person) return page(401, signIn(credential === undefined ? 'Who are you?' : 'That is not known here.'));
  try {
    return await decided(form['decision'], { approvalId, person, pending, isTyped: credential !== undefined });
  } catch (error) {
    if (error instanceof PendingError) return page(STATUS[error.code], `<p>${escaped(error.message)}</p>`);
    throw error;
  }
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST']);

function formIn({ method }: Asked, body: unknown): Readonly<Record<string, unknown>> {
  return method === 'POST' && isObject(body) ? body : {};
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

async function refusal(
  asked: Asked,
  credential: string | undefined,
  { verifier }: Pick<McpServerOptions, 'verifier'>,
): Promise<string | undefined> {
  // Another site could send the form in the person's name. It cannot say that it is this one.
  if (asked.method === 'POST' && asked.header('origin') === undefined) return 'Send the form from this page.';
  const isClient = credential !== undefined && (await verifier.verify(credential)) !== undefined;
  return isClient ? 'This is the token of an MCP client, which cannot approve its own calls.' : undefined;
}

interface Deciding {
  readonly approvalId: string;
  readonly person: Respondent;
  readonly pending: PendingService;
  /** True if the person has to type the credential again to decide. */
  readonly isTyped: boolean;
}

async function decided(decision: unknown, { approvalId, person, pending, isTyped }: Deciding): Promise<Response> {
  if (decision === 'approve' || decision === 'deny') {
    await pending.decide({ approvalId, decision }, person);
    return page(200, `<p>The call was ${decision === 'approve' ? 'approved' : 'denied'}. You can close this page.</p>`);
  }
  const { request, answer } = await pending.get(approvalId, person);
  return page(200, answer ? '<p>This call was decided on already.</p>' : shown(request, isTyped));
}

const STATUS: Readonly<Record<PendingError['code'], number>> = {
  not_found: 404,
  not_permitted: 403,
  invalid_answer: 400,
  already_answered: 409,
  expired: 409,
  withdrawn: 409,
  held: 409,
};

const CREDENTIAL = '<p><label>Your credential <input type="password" name="credential" autocomplete="off" required></label></p>';

function signIn(words: string): string {
  return `<p>${words}</p><form method="post">${CREDENTIAL}<button>Show the call</button></form>`;
}

function shown({ tool, presentation, reason, args, preview, changed, expiresAt }: ApprovalRequest, isTyped: boolean): string {
  const parts = [
    `<h1>${escaped(presentation?.confirm ?? presentation?.label ?? tool)}</h1>`,
    `<p>${escaped(reason)}</p>`,
    `<p>Tool: <code>${escaped(tool)}</code></p><pre>${escaped(JSON.stringify(args, undefined, 2))}</pre>`,
    ...(changed
      ? [`<p>The tool has changed since this was asked before:</p><pre>${escaped(JSON.stringify(changed, undefined, 2))}</pre>`]
      : []),
    ...(preview ? [`<p>Preview:</p><pre>${escaped(JSON.stringify(preview, undefined, 2))}</pre>`] : []),
    `<p>It can be decided until ${escaped(expiresAt)}.</p>`,
    `<form method="post">${isTyped ? CREDENTIAL : ''}<button name="decision" value="approve">Approve</button> <button name="decision" value="deny">Deny</button></form>`,
  ];
  return parts.join('\n');
}

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
};

function page(status: number, content: string): Response {
  const html = `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Approval</title>\n${content}\n</html>\n`;
  return new Response(html, { status, headers: HEADERS });
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
