import { eventsIn, headersOf, ofType } from '../demo/served-desk.js';
import type { ShownRequest } from './curl.js';

/**
 * A reader of a page who sends its requests one after the other, and puts the ids of the answers
 * where later requests name them.
 */
export class Walk {
  /** Everything that was answered, line by line. */
  readonly lines: string[] = [];
  private readonly known = new Map<string, string>();

  /** Sends a request to the demo at an address. */
  async send(url: string, { path, user, headers, body }: ShownRequest): Promise<readonly string[]> {
    const sent = { headers: { ...headersOf(user), ...headers } };
    const filled = body === undefined ? undefined : this.filled(body);
    const asking = (): Promise<Response> =>
      fetch(url + this.filled(path), {
        ...sent,
        ...(filled !== undefined && { method: 'POST', body: filled }),
      });
    const answer = await settledAnswer(asking);
    this.learn(answer);
    this.lines.push(...answer.split('\n'));
    return this.lines;
  }

  private filled(text: string): string {
    return text.replaceAll(/\$(\w+)/g, (_, name: string) => this.known.get(name) ?? '');
  }

  private learn(answer: string): void {
    const [, run] = /^\{"runId":"([^"]+)","status":/.exec(answer) ?? [];
    if (run !== undefined) this.known.set('RUN', run);
    const events = eventsIn(answer);
    const [asked] = ofType(events, 'approval-request');
    if (asked) this.known.set('APPROVAL', asked.approval.approvalId).set('RUN', asked.runId);
    const [pending] = ofType(events, 'pending-request');
    if (!pending) return;
    this.known.set('RUN', pending.runId);
    if (pending.kind === 'rehearsal') this.known.set('REHEARSAL', pending.request.rehearsalId);
    else this.known.set('CALL', pending.request.toolCallId);
    if (pending.kind === 'question') this.known.set('ID', pending.request.questionId);
  }
}

/**
 * What a reader is answered who takes a second to type: a directive that was due has been performed
 * by then, or undone.
 */
async function settledAnswer(asking: () => Promise<Response>): Promise<string> {
  for (;;) {
    const answer = await (await asking()).text();
    if (!/"task":"perform","status":"(?:pending|performing)"|"status":"under_way"/.test(answer))
      return answer;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
