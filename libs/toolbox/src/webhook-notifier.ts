import { createHmac } from 'node:crypto';
import { request } from 'node:https';
import { Notifier, type PendingNotice } from '@toolloop/core';
import { EgressGuard, type EgressOptions } from '@toolloop/protocol/egress';

/**
 * Tells what waits for people to an https address, as a webhook of the Standard Webhooks
 * specification: `webhook-id`, the same for every attempt, `webhook-timestamp` and
 * `webhook-signature`, an HMAC-SHA256 over both and the body. The body has the `PendingNotice`, so
 * no argument, question or answer. Redirects are not followed. Whatever is not answered with a
 * status of 200 to 299 within 10 s is tried again, at growing intervals, ten times.
 *
 * @example
 * providers: [
 *   {
 *     provide: WebhookNotifier,
 *     useFactory: () =>
 *       new WebhookNotifier({
 *         url: 'https://hooks.example.com/toolloop',
 *         secret: process.env.WEBHOOK_SECRET ?? '',
 *       }),
 *   },
 * ];
 */
export class WebhookNotifier extends Notifier {
  private readonly url: URL;
  private readonly keys: readonly Buffer[];
  private readonly guard: EgressGuard;
  private readonly ca: string | undefined;

  /**
   * @throws TypeError for an address that is not https or may not be reached, and for a secret of
   *   another form
   */
  constructor({ url, secret, egress = {}, ca }: WebhookOptions) {
    super();
    this.guard = new EgressGuard({ ports: [443], ...egress });
    this.url = addressOf(url, this.guard);
    this.keys = (typeof secret === 'string' ? [secret] : secret).map(keyOf);
    if (this.keys.length === 0) throw new TypeError('A webhook needs a secret to sign with.');
    this.ca = ca;
  }

  /** @throws Error where the receiver does not take the notice, or cannot be reached */
  async notify(notice: PendingNotice, signal?: AbortSignal): Promise<void> {
    const now = new Date();
    const body = JSON.stringify({
      type: `pending.${notice.type}`,
      timestamp: now.toISOString(),
      data: notice,
    });
    const seconds = `${Math.floor(now.getTime() / 1_000)}`;
    const headers = {
      'content-type': 'application/json',
      'content-length': `${Buffer.byteLength(body)}`,
      'user-agent': 'toolloop-webhook',
      'webhook-id': notice.noticeId,
      'webhook-timestamp': seconds,
      'webhook-signature': this.keys
        .map((key) => signatureOf(key, `${notice.noticeId}.${seconds}.${body}`))
        .join(' '),
    };
    const status = await this.post(body, headers, signal);
    if (status < 200 || status > 299)
      throw new Error(`The webhook answered with status ${status}.`);
  }

  /** Sends without a shared agent: a kept connection would skip the guard's lookup. */
  private post(
    body: string,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<number> {
    const { url, guard, ca } = this;
    return new Promise((resolve, reject) => {
      const options = {
        method: 'POST',
        agent: false,
        lookup: guard.lookup,
        headers,
        ...(signal && { signal }),
        ...(ca !== undefined && { ca }),
      };
      const sent = request(url, options, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }
}

export interface WebhookOptions {
  /**
   * The https address that is told. It is checked, and its host's addresses when it is told: they
   * must be public.
   */
  readonly url: string;
  /**
   * The secret that the receiver knows: `whsec_` and 24 to 64 bytes as base64, such as
   * `whsec_${randomBytes(32).toString('base64')}`. Of several, each signs, so that one can take the
   * place of another.
   */
  readonly secret: string | readonly string[];
  /** The hosts and ports that may be reached. @default any public host, on port 443 */
  readonly egress?: EgressOptions;
  /**
   * Certificate authorities in PEM, in the place of the system's: for a receiver with a certificate
   * of its own. @default the system's
   */
  readonly ca?: string;
}

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const LEAST_BYTES = 24;
const MOST_BYTES = 64;

function addressOf(address: string, guard: EgressGuard): URL {
  if (!URL.canParse(address) || new URL(address).protocol !== 'https:')
    throw new TypeError('A webhook is told by https alone: give its url as https://….');
  try {
    return guard.check(address);
  } catch (cause) {
    throw new TypeError(
      'The url of the webhook may not be reached: see `egress` for the hosts and ports that may.',
      { cause },
    );
  }
}

/** @throws TypeError for a secret of another form, without repeating it */
function keyOf(secret: string): Buffer {
  const key = Buffer.from(SECRET.exec(secret)?.[1] ?? '', 'base64');
  if (key.length >= LEAST_BYTES && key.length <= MOST_BYTES) return key;
  throw new TypeError(
    `The secret of a webhook is whsec_ and ${LEAST_BYTES} to ${MOST_BYTES} bytes as base64.`,
  );
}

function signatureOf(key: Buffer, signed: string): string {
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
}
