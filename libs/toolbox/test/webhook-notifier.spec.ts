import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createHmac } from 'node:crypto';
import type { PendingNotice } from '@toolloop/core';
import { WebhookNotifier, type WebhookOptions } from '@toolloop/toolbox';
import { HttpsReceiver } from './https-receiver.js';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const NOTICE: PendingNotice = {
  noticeId: 'apr_1.14400000',
  type: 'reminder',
  pendingId: 'apr_1',
  kind: 'approval',
  tenant: 'acme',
  runId: 'r1',
  tool: 'bank__pay',
  roles: ['manager'],
  createdAt: '2026-11-25T08:00:00.000Z',
  expiresAt: '2026-11-26T08:00:00.000Z',
};

describe('a webhook', () => {
  let receiver: HttpsReceiver;

  beforeAll(async () => {
    receiver = await HttpsReceiver.open();
  });
  afterAll(() => receiver.close());

  function webhook(more: Partial<WebhookOptions> = {}) {
    return new WebhookNotifier({ ...receiver.options, secret: SECRET, ...more });
  }

  it('is signed with its id and its time, by each secret, so that a receiver can check it', async () => {
    const second = `whsec_${Buffer.alloc(24, 9).toString('base64')}`;
    await webhook({ secret: [SECRET, second] }).notify(NOTICE);
    const { headers = {}, body = '' } = receiver.got.at(-1) ?? {};
    const [id, time] = [headers['webhook-id'], headers['webhook-timestamp']];
    const signed = [SECRET, second].map((secret) => {
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
      return `v1,${createHmac('sha256', key)
        .update(`${String(id)}.${String(time)}.${body}`)
        .digest('base64')}`;
    });
    expect([id, headers['webhook-signature']]).toEqual([NOTICE.noticeId, signed.join(' ')]);
    expect(Math.abs(Number(time) * 1_000 - Date.now())).toBeLessThan(60_000);
    expect(JSON.parse(body)).toEqual({
      type: 'pending.reminder',
      timestamp: expect.any(String),
      data: NOTICE,
    });
  });

  it.each([301, 307, 400, 410, 500])(
    'fails for the status %i, and follows no redirect, so that it is told again',
    async (status) => {
      receiver.answer = { status, location: 'https://elsewhere.example/' };
      const before = receiver.got.length;
      await expect(webhook().notify(NOTICE)).rejects.toThrow(
        `The webhook answered with status ${status}.`,
      );
      expect(receiver.got.length).toBe(before + 1);
      receiver.answer = { status: 204, location: '' };
    },
  );

  it('reaches no address of the machine’s own network, whatever its name says by then', async () => {
    const { ports, lookup } = receiver.options.egress;
    const before = receiver.got.length;
    await expect(webhook({ egress: { ports, lookup } }).notify(NOTICE)).rejects.toThrow(
      /not on the public internet/,
    );
    expect(receiver.got.length).toBe(before);
  });

  it('tells nothing to a receiver whose certificate is not to be trusted', async () => {
    const before = receiver.got.length;
    const { ca: _ca, ...untrusted } = receiver.options;
    const untrusting = new WebhookNotifier({ ...untrusted, secret: SECRET });
    await expect(untrusting.notify(NOTICE)).rejects.toThrow(/certificate/);
    expect(receiver.got.length).toBe(before);
  });

  it('ends with the signal', async () => {
    await expect(webhook().notify(NOTICE, AbortSignal.abort(new Error('over')))).rejects.toThrow(
      /abort/,
    );
  });

  it.each<[string, Partial<WebhookOptions>, RegExp]>([
    ['an http address', { url: 'http://hooks.example/' }, /by https alone/],
    ['no address', { url: 'hooks' }, /by https alone/],
    [
      'a name and a password in the address',
      { url: 'https://a:b@hooks.example/', egress: {} },
      /may not be reached/,
    ],
    [
      'an address of its own network',
      { url: 'https://10.0.0.1/', egress: {} },
      /may not be reached/,
    ],
    ['another port', { url: 'https://hooks.example:8080/', egress: {} }, /may not be reached/],
    [
      'a secret that is too short',
      { secret: `whsec_${Buffer.alloc(8).toString('base64')}` },
      /24 to 64 bytes/,
    ],
    ['a secret without its prefix', { secret: 'hunter2hunter2hunter2hunter2hunter2' }, /whsec_/],
    ['no secret at all', { secret: [] }, /needs a secret/],
  ])('is refused at start with %s, and the secret is not repeated', (_, options, problem) => {
    const make = () => webhook(options);
    expect(make).toThrow(problem);
    expect(make).not.toThrow(/hunter2/);
  });
});
