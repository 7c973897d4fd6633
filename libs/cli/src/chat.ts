import { randomUUID } from 'node:crypto';
import { createInterface, type Interface } from 'node:readline/promises';
import type {
  JsonObject,
  JsonValue,
  LoopEvent,
  PendingReply,
  QuestionRequest,
  WaitingRequest,
} from '@toolloop/protocol';
import { ChatView } from './chat-view.js';
import type { Counterpart } from './counterpart.js';
import { aboutOf, answererOf, explanationText, runsText, toolsText } from './looks.js';
import { CommandError, type CommandOutput, failureOf } from './output.js';
import {
  answerIn,
  fieldPrompt,
  fieldsOf,
  type FormField,
  formOf,
  usualOf,
} from './question-form.js';

/**
 * Talks with the loop of an application. At a terminal it has a prompt and colours, and asks what
 * runs ask; with its input or output piped it reads one message a line, writes no colour and no
 * prompt, and asks for no answer.
 */
export class Chat {
  private readonly isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  private readonly view: ChatView;
  private readonly lines: Interface;
  private readonly conversationId = randomUUID();
  /** The answer that is being written. */
  private running: AbortController | undefined;
  /** The question at the prompt, which waits for a person. */
  private asking: AbortController | undefined;
  /** The open requests of the run of the moment, by id. */
  private readonly asked = new Map<string, WaitingRequest>();
  private hasFailed = false;
  /** Set once the person leaves: nothing more is read, and nothing more is asked. */
  private isLeaving = false;

  constructor(
    private readonly counterpart: Counterpart,
    output: CommandOutput,
  ) {
    const { isTerminal } = this;
    this.view = new ChatView((text) => output.write(text), isTerminal && !process.env['NO_COLOR']);
    this.lines = createInterface({
      input: process.stdin,
      ...(isTerminal && { output }),
      terminal: isTerminal,
    });
  }

  /** Reads messages until the input ends, and returns whether every run came to its end. */
  async talk(): Promise<boolean> {
    const { lines } = this;
    const stop = (): void => this.interrupt();
    lines.on('SIGINT', stop);
    process.on('SIGINT', stop);
    // piped, the lines that were read before its end are still taken
    if (this.isTerminal) lines.once('close', () => this.leave());
    try {
      if (this.isTerminal)
        this.view.line(this.view.styled('dim', 'Ask something. /help lists the commands.'));
      lines.setPrompt(this.isTerminal ? '> ' : '');
      if (this.isTerminal) lines.prompt();
      for await (const line of lines) {
        if (line.trim() === '/quit') break;
        await this.take(line.trim());
        if (this.isLeaving) break;
        if (this.isTerminal) lines.prompt();
      }
    } finally {
      process.off('SIGINT', stop);
      lines.close();
    }
    return !this.hasFailed;
  }

  /** Ends the chat once the answer of the moment is written. */
  private leave(): void {
    this.isLeaving = true;
    this.asking?.abort();
  }

  /**
   * Stops the answer that is being written, or leaves the question at the prompt for later; without
   * either, leaves what was typed. Piped, it ends the chat.
   */
  private interrupt(): void {
    const { running, asking, isTerminal, lines } = this;
    running?.abort();
    asking?.abort();
    if (!isTerminal) {
      this.leave();
      return lines.close();
    }
    if (running || asking) return;
    this.view.line('');
    lines.write(null, { ctrl: true, name: 'u' });
    lines.prompt();
  }

  private async take(line: string): Promise<void> {
    const [, command, argument = ''] = /^\/(\w+)\s*(.*)$/.exec(line) ?? [];
    try {
      if (command !== undefined) await this.carryOut(command, argument);
      else if (line !== '')
        await this.follow((signal) => this.counterpart.ask(line, this.conversationId, signal));
    } catch (error) {
      this.hasFailed = true;
      this.view.line(this.view.styled('red', failureOf(error)));
    }
  }

  private async carryOut(command: string, argument: string): Promise<void> {
    const { counterpart, view } = this;
    const needed = (): string => {
      if (argument !== '') return argument;
      throw new CommandError(`/${command} needs an id.`);
    };
    if (command === 'tools') view.line(toolsText(await counterpart.tools()));
    else if (command === 'why') view.line(explanationText(await counterpart.explain(needed(), {})));
    else if (command === 'runs') view.line(runsText(await counterpart.runs({})));
    else if (command === 'resume') {
      const runId = needed();
      await this.follow((signal) => counterpart.resume(runId, signal));
    } else view.line(HELP);
  }

  /** Shows the events of a run, asks what it asks, and continues it once that is answered. */
  private async follow(open: (signal: AbortSignal) => AsyncIterable<LoopEvent>): Promise<void> {
    for (let next: typeof open | undefined = open; next;) {
      const runId = await this.watch(next);
      next =
        runId !== undefined && (await this.answered(runId))
          ? (signal) => this.counterpart.resume(runId, signal)
          : undefined;
    }
  }

  /** Shows a run up to its end, and returns its id where it waits. */
  private async watch(
    open: (signal: AbortSignal) => AsyncIterable<LoopEvent>,
  ): Promise<string | undefined> {
    const running = new AbortController();
    this.running = running;
    this.asked.clear();
    try {
      for await (const event of open(running.signal)) {
        this.view.show(event);
        this.note(event);
        if (event.type !== 'run-end') continue;
        this.hasFailed ||= event.finishReason !== 'stop';
        return event.finishReason === 'waiting' ? event.runId : undefined;
      }
    } catch (error) {
      if (!running.signal.aborted) throw error;
      this.hasFailed = true;
    } finally {
      this.running = undefined;
    }
    if (running.signal.aborted) this.view.line(this.view.styled('yellow', 'Stopped.'));
    return undefined;
  }

  private note(event: LoopEvent): void {
    if (event.type === 'approval-request')
      this.asked.set(event.approval.approvalId, {
        kind: 'approval',
        id: event.approval.approvalId,
        request: event.approval,
      });
    if (event.type === 'pending-request' && event.kind === 'question')
      this.asked.set(event.request.questionId, {
        kind: 'question',
        id: event.request.questionId,
        request: event.request,
      });
    if (event.type === 'pending-request' && event.kind === 'client')
      this.asked.set(event.request.pendingId, {
        kind: 'client',
        id: event.request.pendingId,
        request: event.request,
      });
  }

  /**
   * Asks the person at the terminal what a run has asked, and returns whether all of it is
   * answered.
   */
  private async answered(runId: string): Promise<boolean> {
    const open = new Map([...this.asked, ...(await this.entriesOf(runId))]);
    const taken: boolean[] = [];
    for (const waiting of open.values()) taken.push(await this.isAnswered(runId, waiting));
    if (taken.length > 0 && taken.every(Boolean)) return true;
    this.view.line(
      this.isTerminal
        ? `Continue it with /resume ${runId} once it is answered.`
        : pipedAdvice(runId),
    );
    if (this.isTerminal && [...open.values()].some(isForOthers)) await this.offerToLeave(runId);
    return false;
  }

  /** Asks for one answer, and returns whether it was given. */
  private async isAnswered(runId: string, waiting: WaitingRequest): Promise<boolean> {
    const reply = isForOthers(waiting) ? this.tellWhose(waiting) : await this.replyTo(waiting);
    return reply !== undefined && (await this.send(runId, reply));
  }

  /**
   * The requests of a run as the application lists them to this person, by id: whether their answer
   * counts, and whose does.
   */
  private async entriesOf(runId: string): Promise<ReadonlyMap<string, WaitingRequest>> {
    // they are asked then, and told by the refusal
    const entries = await this.counterpart.inbox({ runId }).catch(() => []);
    return new Map(entries.map((entry) => [entry.id, entry]));
  }

  /** Says whose answer counts where this person's does not. */
  private tellWhose(entry: WaitingRequest): undefined {
    this.view.line(this.view.styled('bold', `? ${aboutOf(entry)}`));
    this.view.line(`  It is for ${answererOf(entry)}: ${entry.id} in their inbox.`);
    if (this.counterpart.isAlone)
      this.view.line(
        '  They decide where the application listens on the same storage: this one listens nowhere.',
      );
  }

  private async offerToLeave(runId: string): Promise<void> {
    if (!/^(?:y|yes)$/i.test((await this.ask('Leave until then? yes or no: ')) ?? '')) return;
    this.view.line(`The run is ${runId}.`);
    this.leave();
  }

  private async send(runId: string, reply: PendingReply): Promise<boolean> {
    try {
      await this.counterpart.answer(runId, reply);
      return true;
    } catch (error) {
      this.view.line(this.view.styled('yellow', failureOf(error)));
      return false;
    }
  }

  private async replyTo(waiting: WaitingRequest): Promise<PendingReply | undefined> {
    const { kind, id } = waiting;
    if (kind === 'client')
      return {
        toolCallId: waiting.request.toolCallId,
        pendingId: id,
        error: 'A terminal cannot do this for its user.',
      };
    this.view.line(this.view.styled('bold', `? ${aboutOf(waiting)}`));
    if (!this.isTerminal) return undefined;
    if (kind === 'question') return this.questionReply(waiting.request);
    return kind === 'approval' ? this.decision(id) : undefined;
  }

  /** A yes or a no to a call; undefined where the person leaves it for later. */
  private async decision(approvalId: string): Promise<PendingReply | undefined> {
    const said = await this.ask('Approve it? yes, no or later: ');
    if (/^(?:y|yes)$/i.test(said ?? '')) return { approvalId, decision: 'approve' };
    if (!/^(?:n|no)$/i.test(said ?? '')) return undefined;
    const reason = await this.ask('Why not? ');
    return reason === undefined
      ? undefined
      : { approvalId, decision: 'deny', ...(reason !== '' && { reason }) };
  }

  /**
   * The answer to a question, whose fields are asked for one by one; undefined where the person
   * leaves it for later.
   */
  private async questionReply({
    questionId,
    schema,
  }: QuestionRequest): Promise<PendingReply | undefined> {
    const fields = fieldsOf(schema);
    const answer = fields
      ? await this.filledIn(fields)
      : await this.valueFor(`${formOf(schema)}: `, schema);
    if (answer === LATER) return undefined;
    return answer === undefined ? { questionId, decision: 'deny' } : { questionId, answer };
  }

  private async filledIn(
    fields: readonly FormField[],
  ): Promise<JsonObject | undefined | typeof LATER> {
    const answer: Record<string, JsonValue> = {};
    for (const field of fields) {
      const value = await this.valueFor(fieldPrompt(field), field.schema);
      if (value === LATER) return LATER;
      if (value !== undefined) answer[field.name] = value;
      else if (field.isRequired) return undefined;
    }
    return answer;
  }

  /**
   * Asks until what is typed can be the value. An empty line is what the schema has for it, or that
   * there is none.
   */
  private async valueFor(
    prompt: string,
    schema: FormField['schema'],
  ): Promise<JsonValue | undefined | typeof LATER> {
    for (;;) {
      const said = await this.ask(prompt);
      if (said === undefined) return LATER;
      if (said === '') return usualOf(schema);
      const answer = answerIn(said, schema);
      if (answer !== undefined) return answer;
      this.view.line('  That is not what was asked for.');
    }
  }

  /** Asks at the prompt; undefined where the person leaves it by Ctrl-C, or leaves by Ctrl-D. */
  private async ask(prompt: string): Promise<string | undefined> {
    if (this.isLeaving) return undefined;
    const asking = new AbortController();
    this.asking = asking;
    try {
      return (await this.lines.question(`  ${prompt}`, { signal: asking.signal })).trim();
    } catch (error) {
      // Node rejects at Ctrl-D before it says that the input is closed.
      if (!asking.signal.aborted && !(error instanceof Error && error.name === 'AbortError'))
        throw error;
      this.view.line('');
      return undefined;
    } finally {
      this.asking = undefined;
    }
  }
}

const HELP = [
  '/tools       the tools that the model may call from the first step',
  '/why TOOL    why it may call a tool, or may not',
  '/runs        your runs',
  '/resume ID   continue a run that has waited',
  '/quit        leave; Ctrl-C stops the answer that is being written',
].join('\n');

/**
 * Tells whether only the answer of other people counts. A call of the client is no one's to decide.
 */
function isForOthers({ kind, mayAnswer }: WaitingRequest): boolean {
  return mayAnswer === false && kind !== 'client';
}

/**
 * Says how a run continues once the chat that is piped has ended: by its command, as a line of
 * another one.
 */
function pipedAdvice(runId: string): string {
  return `Continue it once it is answered ("toolloop inbox" shows what it asks): echo "/resume ${runId}" | toolloop chat, with the options of this one.`;
}

const LATER = Symbol('left for later');
