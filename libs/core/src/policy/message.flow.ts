import type { Message, MessageLabels } from '../protocol/message.js';
import type { InformationFlow } from '../protocol/policy.js';
import { TrustedText } from './trusted.text.js';

/** What a model has read, joined over its messages: one untrusted result taints all that follows, one private message makes all of it private. */
export class MessageFlow implements InformationFlow {
  private trusted: TrustedText | undefined;
  private said: TrustedText | undefined;

  private constructor(
    private readonly messages: readonly Message[],
    readonly integrity: InformationFlow['integrity'],
    readonly confidentiality: InformationFlow['confidentiality'],
    /** Of the run around a sub-run, when it made the call. */
    private readonly outer?: InformationFlow,
  ) {}

  static of(messages: readonly Message[]): MessageFlow {
    return new MessageFlow([], 'trusted', 'public').at(messages);
  }

  /** The flow of a run whose instructions are worth this: a model reads them before everything else. */
  static instructed(reads: MessageLabels['reads']): MessageFlow {
    return new MessageFlow([], 'trusted', reads);
  }

  /** The flow of a sub-run: whoever began it had read what it had read, and the user's words there are the user's words here. */
  static within(outer: InformationFlow): MessageFlow {
    return new MessageFlow([], outer.integrity, outer.confidentiality, outer);
  }

  /** The flow of a transcript that goes on from this one's. Costs what is new in it, not what went before. */
  at(messages: readonly Message[]): MessageFlow {
    if (messages === this.messages) return this; // the calls of one step share what was found out
    const read = messages.slice(this.messages.length);
    const isTainted = this.integrity === 'untrusted' || read.some(isUntrusted);
    const isPrivate = this.confidentiality === 'private' || read.some(isPrivateContent);
    return new MessageFlow(messages, isTainted ? 'untrusted' : 'trusted', isPrivate ? 'private' : 'public', this.outer);
  }

  /** The flow of a model that was shown these as well, which are not in the transcript. */
  beside(shown: readonly Message[]): MessageFlow {
    const other = MessageFlow.of(shown);
    const integrity = other.integrity === 'untrusted' ? 'untrusted' : this.integrity;
    return new MessageFlow(this.messages, integrity, other.confidentiality === 'private' ? 'private' : this.confidentiality, this.outer);
  }

  /** The flow of a model that was shown a stranger's text which is no message. */
  tainted(): MessageFlow {
    if (this.integrity === 'untrusted') return this;
    return new MessageFlow(this.messages, 'untrusted', this.confidentiality, this.outer);
  }

  isTraced(value: string | number): boolean {
    this.trusted ??= new TrustedText(authorityIn(this.messages, this.outer?.integrity === 'untrusted').flatMap(textsOf));
    return this.trusted.has(value) || this.outer?.isTraced(value) === true;
  }

  isSaid(value: string): boolean {
    this.said ??= new TrustedText(this.messages.filter(isOfUser).flatMap(textsOf));
    return this.said.has(value) || this.outer?.isSaid(value) === true;
  }
}

/** A result without labels is of unknown origin. */
function isUntrusted(message: Message): boolean {
  if (message.role === 'tool') return message.labels?.returns !== 'trusted';
  if (message.role === 'assistant') return message.labels?.returns === 'untrusted';
  return message.role === 'user' && typeof message.content !== 'string' && message.content.some(({ type }) => type !== 'text');
}

/** What a user says is nobody else's business unless the request said otherwise. */
function isPrivateContent(message: Message): boolean {
  if (message.role === 'assistant') return message.labels?.reads === 'private';
  return message.role === 'system' || message.labels?.reads !== 'public';
}

/** Whether a message is in the user's own words. */
function isOfUser(message: Message): boolean {
  return message.role === 'user' && message.labels?.returns !== 'untrusted';
}

/**
 * The user's words, and trusted results of calls that the model chose before it had read anything untrusted: which of the later ones it asked for, a
 * stranger may have told it. A model's own words carry no authority either, they may repeat what it read; nor do errors, which may repeat
 * the model's.
 */
function authorityIn(messages: readonly Message[], wasTainted: boolean): Message[] {
  let isTainted = wasTainted;
  let isChosenFreely = true;
  return messages.filter((message) => {
    if (message.role === 'assistant') isChosenFreely = !isTainted;
    if (isUntrusted(message)) isTainted = true;
    return (
      isOfUser(message) || (message.role === 'tool' && !message.isError && !message.isModelText && !isUntrusted(message) && isChosenFreely)
    );
  });
}

function textsOf({ content }: Message): string[] {
  return typeof content === 'string' ? [content] : content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
}
