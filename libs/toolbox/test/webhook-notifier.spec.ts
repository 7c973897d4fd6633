import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { PendingNotice } from '@toolloop/core';
import { WebhookNotifier, type WebhookOptions } from '@toolloop/toolbox';

/** The certificate of a host that exists in this test alone, and its key. */
const HOST = 'hooks.example';
const CERTIFICATE = pem(
  'CERTIFICATE',
  'MIIBoDCCAUegAwIBAgIUcFFixQWgnQUu3FAb1tjPKszRBGEwCgYIKoZIzj0EAwIwGDEWMBQGA1UEAwwNaG9va3MuZXhhbXBsZTAgFw0yNjExMjUxNjA1MzdaGA8yMTI2MTEwMTE2MDUzN1owGDEWMBQGA1UEAwwNaG9va3MuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCD98MxOaDM8bMmKMogKu+QeD8ht9UL7Wn9/NEztbkyqoa8BTZE09FEHL2BD1LlygTWsyRIeUJni3yrGVcA2lPajbTBrMB0GA1UdDgQWBBRjF1kDoNN9JVWiOAOSUXE2lFzHBTAfBgNVHSMEGDAWgBRjF1kDoNN9JVWiOAOSUXE2lFzHBTAPBgNVHRMBAf8EBTADAQH/MBgGA1UdEQQRMA+CDWhvb2tzLmV4YW1wbGUwCgYIKoZIzj0EAwIDRwAwRAIgMTR/qA8q6n93eaMowiT30o6wWz3UlEWowhC4/utSAvICIE2WJ0P4JT/PntbQhR/fugJCO7HkLrgPyhQumry71s8z',
);
const KEY = pem(
  'PRIVATE KEY',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXIr6QN4f/rbb5Dv9S/vxtcPhlAfkFyzdqfVg9xfyZxqhRANCAAQg/fDMTmgzPGzJijKICrvkHg/IbfVC+1p/fzRM7W5MqqGvAU2RNPRRBy9gQ9S5coE1rMkSHlCZ4t8qxlXANpT2',
);
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

function pem(what: string, base64: string): string {
  return `-----BEGIN ${what}-----\n${base64.replaceAll(/(.{64})/g, '$1\n')}\n-----END ${what}-----\n`;
}

const toThisMachine = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]);

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
  const got: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  let server: Server;
  let answer = { status: 204, location: '' };

  beforeAll(async () => {
    server = createServer({ key: KEY, cert: CERTIFICATE }, (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        got.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
        response.writeHead(answer.status, { location: answer.location }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });

  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  function webhook(more: Partial<WebhookOptions> = {}) {
    const { port } = server.address() as AddressInfo;
    const egress = { ports: [port], allowPrivateAddresses: true, lookup: toThisMachine };
    return new WebhookNotifier({ url: `https://${HOST}:${port}/here`, secret: SECRET, egress, ca: CERTIFICATE, ...more });
  }

  it('is signed with its id and its time, by each secret, so that a receiver can check it', async () => {
    const second = `whsec_${Buffer.alloc(24, 9).toString('base64')}`;
    await webhook({ secret: [SECRET, second] }).notify(NOTICE);
    const { headers = {}, body = '' } = got.at(-1) ?? {};
    const [id, time] = [headers['webhook-id'], headers['webhook-timestamp']];
    const signed = [SECRET, second].map((secret) => {
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
      return `v1,${createHmac('sha256', key)
        .update(`${String(id)}.${String(time)}.${body}`)
        .digest('base64')}`;
    });
    expect([id, headers['webhook-signature']]).toEqual([NOTICE.noticeId, signed.join(' ')]);
    expect(Math.abs(Number(time) * 1_000 - Date.now())).toBeLessThan(60_000);
    expect(JSON.parse(body)).toEqual({ type: 'pending.reminder', timestamp: expect.any(String), data: NOTICE });
  });

  it.each([301, 307, 400, 410, 500])('fails for the status %i, and follows no redirect, so that it is told again', async (status) => {
    answer = { status, location: 'https://elsewhere.example/' };
    const before = got.length;
    await expect(webhook().notify(NOTICE)).rejects.toThrow(`The webhook answered with status ${status}.`);
    expect(got.length).toBe(before + 1);
    answer = { status: 204, location: '' };
  });

  it('reaches no address of the machine’s own network, whatever its name says by then', async () => {
    const { port } = server.address() as AddressInfo;
    const before = got.length;
    await expect(webhook({ egress: { ports: [port], lookup: toThisMachine } }).notify(NOTICE)).rejects.toThrow(
      /not on the public internet/,
    );
    expect(got.length).toBe(before);
  });

  it('tells nothing to a receiver whose certificate is not to be trusted', async () => {
    const before = got.length;
    const { port } = server.address() as AddressInfo;
    const egress = { ports: [port], allowPrivateAddresses: true, lookup: toThisMachine };
    const untrusting = new WebhookNotifier({ url: `https://${HOST}:${port}/`, secret: SECRET, egress });
    await expect(untrusting.notify(NOTICE)).rejects.toThrow(/certificate/);
    expect(got.length).toBe(before);
  });

  it('ends with the signal', async () => {
    await expect(webhook().notify(NOTICE, AbortSignal.abort(new Error('over')))).rejects.toThrow(/abort/);
  });

  it.each<[string, Partial<WebhookOptions>, RegExp]>([
    ['an http address', { url: 'http://hooks.example/' }, /by https alone/],
    ['no address', { url: 'hooks' }, /by https alone/],
    ['a name and a password in the address', { url: 'https://a:b@hooks.example/', egress: {} }, /may not be reached/],
    ['an address of its own network', { url: 'https://10.0.0.1/', egress: {} }, /may not be reached/],
    ['another port', { url: 'https://hooks.example:8080/', egress: {} }, /may not be reached/],
    ['a secret that is too short', { secret: `whsec_${Buffer.alloc(8).toString('base64')}` }, /24 to 64 bytes/],
    ['a secret without its prefix', { secret: 'hunter2hunter2hunter2hunter2hunter2' }, /whsec_/],
    ['no secret at all', { secret: [] }, /needs a secret/],
  ])('is refused at start with %s, and the secret is not repeated', (_, options, problem) => {
    const make = () => webhook(options);
    expect(make).toThrow(problem);
    expect(make).not.toThrow(/hunter2/);
  });
});
