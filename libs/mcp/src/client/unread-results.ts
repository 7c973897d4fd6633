import type {
  JSONRPCMessage,
  JSONRPCResultResponse,
  MessageExtraInfo,
  RequestId,
  Transport,
} from '@modelcontextprotocol/client';
import { isRecord } from '@toolloop/protocol';

/**
 * Stands between a transport and the SDK's client, which refuses a whole list for one odd tool, and
 * a whole answer for one odd part, when the server has long done its work. The client reads an
 * empty result, beside which the one that came is kept, see {@link unreadResult}. A result that
 * asks for input stays as it is. A request that can have no answer any more, since its response has
 * ended without one, gets an empty result alone.
 */
export class UnreadResults {
  private readonly asked = new Map<number, string>();
  private readonly deliver: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  private readonly send: Transport['send'];

  private constructor(
    transport: Transport,
    private readonly noting: Send,
  ) {
    const { onmessage } = transport;
    this.deliver = (message, extra) => onmessage?.(message, extra);
    this.send = transport.send.bind(transport);
  }

  /** Begins with what the transport of a connected client sends from now on. */
  static of(transport: Transport, noting: Send): void {
    const results = new UnreadResults(transport, noting);
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no EventTarget
    transport.onmessage = (message, extra) => results.receive(message, extra);
    transport.send = (message, options) => results.request(message, options);
  }

  private async request(...[message, options]: Parameters<Transport['send']>): Promise<void> {
    const id = this.ask(message);
    if (id === undefined) return this.send(message, options);
    options?.requestSignal?.addEventListener('abort', () => this.asked.delete(id), { once: true });
    const onRequestStreamEnd = (): void => {
      this.end(id);
      options?.onRequestStreamEnd?.();
    };
    const sending: Sending = {};
    try {
      await this.noting(sending, () => this.send(message, { ...options, onRequestStreamEnd }));
    } catch (error) {
      this.asked.delete(id);
      throw error;
    }
    if (sending.isWhole === true) this.end(id);
  }

  /** Returns the id of a request whose result is kept. */
  private ask(message: JSONRPCMessage): number | undefined {
    if (!('method' in message)) return undefined;
    if (message.method === 'notifications/cancelled')
      this.asked.delete(Number(message.params?.['requestId']));
    if (!('id' in message) || !IN_THEIR_PLACE.has(message.method)) return undefined;
    const id = Number(message.id);
    this.asked.set(id, message.method);
    return id;
  }

  private receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const id = 'method' in message ? undefined : Number(message.id);
    const method = id === undefined ? undefined : this.asked.get(id);
    if (id !== undefined) this.asked.delete(id);
    this.deliver(
      method !== undefined && 'result' in message ? unread(message, method) : message,
      extra,
    );
  }

  private end(id: number): void {
    const method = this.asked.get(id);
    if (method === undefined) return;
    this.asked.delete(id);
    this.deliver(inItsPlace(id, method, {}));
  }
}

/**
 * Returns the result as it came of one that the client has read; undefined if the server has sent
 * something else in the place of an answer.
 */
export function unreadResult({
  _meta: meta,
}: {
  readonly _meta?: Readonly<Record<string, unknown>> | undefined;
}): Readonly<Record<string, unknown>> | undefined {
  const kept = meta?.[KEPT];
  return isRecord(kept) ? kept : undefined;
}

/** The request that is sent just now. */
export interface Sending {
  /**
   * Set once it is known that its response is one JSON, all of which has arrived when it is sent.
   */
  isWhole?: boolean;
}

/** Sends a request, and notes how its response comes. */
export type Send = (sending: Sending, send: () => Promise<void>) => Promise<void>;

/**
 * The requests whose results this package reads itself, tool by tool and part by part, with what
 * the SDK reads in their place.
 */
const IN_THEIR_PLACE: ReadonlyMap<string, object> = new Map<string, object>([
  ['tools/list', { tools: [], ttlMs: 0, cacheScope: 'private' }],
  ['tools/call', { content: [] }],
]);

const KEPT = 'toolloop/unread';

function unread(message: JSONRPCResultResponse, method: string): JSONRPCResultResponse {
  const { id, result } = message;
  return result['resultType'] === 'input_required'
    ? message
    : inItsPlace(id, method, { [KEPT]: result });
}

function inItsPlace(id: RequestId, method: string, meta: object): JSONRPCResultResponse {
  return {
    jsonrpc: '2.0',
    id,
    result: { resultType: 'complete', ...IN_THEIR_PLACE.get(method), _meta: { ...meta } },
  };
}
