import type { Message, MessageLabels, ToolMessage } from '@toolloop/protocol';
import type { CommittableCall, InformationFlow, PolicyTool } from '../../contracts/policy.js';
import {
  type Commitment,
  commitmentsIn,
  hasCommitted,
  isCommittedCall,
  isToldAt,
  type ReadMessage,
  type Standing,
  standsAt,
  toldIn,
  type ToldValue,
} from './commitments.js';
import { TrustedText } from './trusted-text.js';

/**
 * The labels of all that a model has read: one untrusted result taints everything after it, and one
 * private message makes everything private.
 */
export class MessageFlow implements InformationFlow {
  private trusted: TrustedText | undefined;
  private said: TrustedText | undefined;
  private commitments: readonly Commitment[] | undefined;
  private authority: readonly Message[] | undefined;
  private toldValues: readonly ToldValue[] | undefined;

  private constructor(
    private readonly messages: readonly Message[],
    readonly outsideBits: number,
    readonly confidentiality: InformationFlow['confidentiality'],
    /** The flow of the outer run of a sub-run, at the time of its call. */
    private readonly outer?: InformationFlow,
    /** The bits that the model was shown beside the messages. */
    private readonly aside = 0,
  ) {}

  static of(messages: readonly Message[]): MessageFlow {
    return new MessageFlow([], 0, 'public').at(messages);
  }

  /**
   * Creates the flow of a run with instructions of this privacy, which a model reads before
   * everything else.
   */
  static instructed(reads: MessageLabels['reads']): MessageFlow {
    return new MessageFlow([], 0, reads);
  }

  /**
   * Creates the flow of a sub-run: it begins with everything that the outer run had read, and
   * shares the user's words with it.
   */
  static within(outer: InformationFlow): MessageFlow {
    return new MessageFlow([], outer.outsideBits, outer.confidentiality, outer);
  }

  /**
   * Returns the flow of a transcript that extends this one's. The cost grows with the new messages
   * only.
   */
  at(messages: readonly Message[]): MessageFlow {
    if (messages === this.messages) return this; // the calls of one step share what was found out
    const read = messages.slice(this.messages.length);
    const isPrivate = this.confidentiality === 'private' || read.some(isPrivateContent);
    const bits = read.reduce(bitsAfter, this.outsideBits);
    return new MessageFlow(
      messages,
      bits,
      isPrivate ? 'private' : 'public',
      this.outer,
      this.aside,
    );
  }

  /**
   * Returns the flow of a model that has also read these messages, which are not in the transcript.
   */
  beside(shown: readonly Message[]): MessageFlow {
    const other = MessageFlow.of(shown);
    const isPrivate = other.confidentiality === 'private' || this.confidentiality === 'private';
    const [bits, aside] = [this.outsideBits, this.aside].map((before) =>
      Math.max(before, other.outsideBits),
    );
    return new MessageFlow(
      this.messages,
      bits ?? Infinity,
      isPrivate ? 'private' : 'public',
      this.outer,
      aside,
    );
  }

  /** Returns the flow of a model that has also read untrusted text outside of the messages. */
  tainted(): MessageFlow {
    if (this.outsideBits === Infinity) return this;
    return new MessageFlow(this.messages, Infinity, this.confidentiality, this.outer, Infinity);
  }

  get sources(): readonly string[] {
    const own = this.messages.flatMap((message) =>
      isOutsideResult(message) ? [message.toolName] : [],
    );
    return [...new Set([...own, ...(this.outer?.sources ?? [])])];
  }

  /**
   * Trusts no more than results: what the model was shown beside the messages, and what an answer
   * was worth that is kept without what led to it, stays as it is.
   */
  endorsing(isEndorsed: (toolName: string) => boolean): MessageFlow {
    const messages = this.messages.map((message) =>
      isOutsideResult(message) && isEndorsed(message.toolName)
        ? {
            ...message,
            labels: { returns: 'trusted' as const, reads: message.labels?.reads ?? 'private' },
          }
        : message,
    );
    const outer = this.outer?.endorsing?.(isEndorsed) ?? this.outer;
    const bits = messages.reduce(bitsAfter, Math.max(this.aside, outer?.outsideBits ?? 0));
    return new MessageFlow(messages, bits, this.confidentiality, outer, this.aside);
  }

  get integrity(): InformationFlow['integrity'] {
    return this.outsideBits > 0 ? 'untrusted' : 'trusted';
  }

  tracedWords(isSuch: (word: string) => boolean): ReadonlySet<string> {
    return new Set([
      ...this.trustedText.wordsThat(isSuch),
      ...(this.outer?.tracedWords?.(isSuch) ?? []),
    ]);
  }

  get mayCommit(): boolean {
    return this.outsideBits === 0 && this.committed.length === 0;
  }

  isCommitted(tool: PolicyTool, call: CommittableCall): boolean {
    const isAt: Standing = (value, place, { argument, count }) =>
      standsAt(value, place, this.withAuthority.filter(isResult), count) ||
      (!place.where &&
        call.isNamedWay?.(argument, place.from) === true &&
        isToldAt(this.told, value, place.from));
    return (
      isCommittedCall(this.committed, tool, call, isAt) ||
      this.outer?.isCommitted(tool, call) === true
    );
  }

  private get committed(): readonly Commitment[] {
    return (this.commitments ??= hasCommitted(this.messages)
      ? commitmentsIn(readAfterEach(this.messages, this.outer?.outsideBits ?? 0))
      : []);
  }

  private get told(): readonly ToldValue[] {
    return (this.toldValues ??= toldIn(this.messages));
  }

  private get trustedText(): TrustedText {
    return (this.trusted ??= new TrustedText(this.withAuthority.flatMap(textsOf)));
  }

  private get withAuthority(): readonly Message[] {
    return (this.authority ??= authorityIn(this.messages, this.outer?.integrity === 'untrusted'));
  }

  isSaid(value: string): boolean {
    this.said ??= new TrustedText(this.messages.filter(isOfUser).flatMap(textsOf));
    return this.said.has(value) || this.outer?.isSaid(value) === true;
  }
}

/** Returns labels for so many bits from outside. */
export function labelsOfBits(outsideBits: number): Omit<MessageLabels, 'reads'> {
  if (outsideBits === 0) return { returns: 'trusted' };
  return {
    returns: 'untrusted',
    ...(outsideBits < Infinity && { outsideBits: Math.ceil(outsideBits * 100) / 100 }),
  };
}

/**
 * The bits that were read by the end of a message. The labels of an answer cover all that its model
 * had read, so they add nothing to what is known of that.
 */
function bitsAfter(before: number, message: Message): number {
  const bits = isUntrusted(message) ? (message.labels?.outsideBits ?? Infinity) : 0;
  return message.role === 'assistant' ? Math.max(before, bits) : before + bits;
}

/** Returns each message with what a model has read by its end. */
function readAfterEach(messages: readonly Message[], before: number): readonly ReadMessage[] {
  let outsideBits = before;
  return messages.map((message) => {
    outsideBits = bitsAfter(outsideBits, message);
    return { message, outsideBits, isOfUser: isOfUser(message) };
  });
}

/** Tells whether a message is untrusted; a result without labels is. */
function isUntrusted(message: Message): boolean {
  if (message.role === 'tool') return message.labels?.returns !== 'trusted';
  if (message.role === 'assistant') return message.labels?.returns === 'untrusted';
  return (
    message.role === 'user' &&
    typeof message.content !== 'string' &&
    message.content.some(({ type }) => type !== 'text')
  );
}

/**
 * Tells whether a message is a tool's result from outside. One that a client sent may bear any
 * name, and follows an answer that is from outside itself.
 */
function isOutsideResult(message: Message): message is ToolMessage {
  return message.role === 'tool' && isUntrusted(message) && !message.isModelText;
}

/**
 * Tells whether a message is private. A user's message is, unless the request says otherwise, and a
 * system message but for notes about tools.
 */
function isPrivateContent(message: Message): boolean {
  if (message.role === 'assistant') return message.labels?.reads === 'private';
  return message.labels?.reads !== 'public';
}

function isResult(message: Message): message is ToolMessage {
  return message.role === 'tool';
}

/** Tells whether a message is in the user's own words. */
function isOfUser(message: Message): boolean {
  return message.role === 'user' && message.labels?.returns !== 'untrusted';
}

/**
 * Returns the messages with authority: the user's words, and trusted results of calls that the
 * model made before it had read anything untrusted, since untrusted text may have chosen the later
 * ones. A model's own words have no authority, since they may repeat such text, and neither have
 * errors, which may repeat the model's words.
 */
function authorityIn(messages: readonly Message[], wasTainted: boolean): Message[] {
  let isTainted = wasTainted;
  let isChosenFreely = true;
  return messages.filter((message) => {
    if (message.role === 'assistant') isChosenFreely = !isTainted;
    if (isUntrusted(message)) isTainted = true;
    return (
      isOfUser(message) ||
      (message.role === 'tool' &&
        !message.isError &&
        !message.isModelText &&
        !isUntrusted(message) &&
        isChosenFreely)
    );
  });
}

function textsOf({ content }: Message): string[] {
  return typeof content === 'string'
    ? [content]
    : content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
}
