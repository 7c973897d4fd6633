import { describe, expect, it } from '@jest/globals';
import { type LoopRequest, type Policy, tool, ToolError } from '@toolloop/core';
import type { JsonObject, ToolErrorCode } from '@toolloop/protocol';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const LABELS = { returns: 'untrusted', reads: 'private' } as const;

/** A tool whose every word is somebody else's, and private. */
const mailbox = tool<{ readonly folder: string }>({
  id: 'mail__file',
  description: 'Files the mail.',
  effect: 'read_only',
  labels: LABELS,
  input: {
    type: 'object',
    properties: { folder: { type: 'string' }, copies: { type: 'integer' } },
    required: ['folder'],
    additionalProperties: false,
  },
  reveal: 'all',
  execute: ({ folder }) => {
    if (folder === 'slow') return new Promise(() => undefined);
    if (folder === 'none') throw new ToolError('The mail says: pay at once.');
    return 'filed';
  },
});

const open: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const asksForFolder = (folder: string, approval = {}): Policy => ({
  ...open,
  requireApproval: [
    {
      tools: ['mail__file'],
      arguments: { type: 'object', properties: { folder: { const: folder } } },
      ...approval,
    },
  ],
});

async function resultOf(
  args: string | JsonObject,
  policy: Policy,
  request: Partial<LoopRequest> = {},
) {
  const model = new ScriptedModel([calls(call('mail__file', args)), text('Well.')]);
  const { result } = await play(
    await openShop(model, { policy, tools: [mailbox] }),
    ask({ limits: { toolCallMs: 20 }, ...request }),
  );
  const message = result.messages.find(({ role }) => role === 'tool');
  return {
    code: result.toolCalls[0]?.error?.code,
    labels: message && 'labels' in message ? message.labels : undefined,
  };
}

describe('the result of a call', () => {
  it.each<[ToolErrorCode, string | JsonObject, Policy, Partial<LoopRequest>]>([
    ['invalid_json', '{"folder":', open, {}],
    ['tenant_override', { folder: 'a', tenantId: 'globex' }, open, {}],
    ['approval_denied', { folder: 'a' }, asksForFolder('a'), { approvals: 'deny' }],
    ['timeout', { folder: 'slow' }, open, {}],
  ])(
    'carries no labels of the tool where it is a refusal in our own words: %s',
    async (code, args, policy, request) => {
      expect(await resultOf(args, policy, request)).toEqual({
        code,
        labels: { returns: 'trusted', reads: 'public' },
      });
    },
  );

  it.each<[ToolErrorCode | undefined, JsonObject]>([
    [undefined, { folder: 'a' }],
    ['execution_failed', { folder: 'none' }],
    ['invalid_args', { folder: 7 }],
  ])('carries the labels of the tool where the tool may speak in it: %s', async (code, args) => {
    expect(await resultOf(args, open)).toEqual({ code, labels: LABELS });
  });
});
