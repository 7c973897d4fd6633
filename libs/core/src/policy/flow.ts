import {
  isJsonList,
  isWebAddress,
  type JsonValue,
  type Message,
  type MessageLabels,
  type ToolMessage,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type {
  CommittableCall,
  FlowLevel,
  InformationFlow,
  Policy,
  PolicyCall,
  PolicySubject,
  PolicyTool,
  RequestableCall,
} from '../contracts/policy.js';
import {
  COMMIT_ID,
  type Commitment,
  commitmentsIn,
  hasCommitted,
  endorsableIn,
  endorsedCall,
  isCommittedCall,
  isToldAt,
  isWhollyEndorsed,
  type ReadMessage,
  type Standing,
  standsAt,
  toldIn,
  type ToldValue,
} from './commitments.js';
import type { Ruling } from './rules.js';
import { TrustedText } from './trusted-text.js';
import { UserRequest } from './user-request.js';

/**
 * Decides by the content that the run has read whether a call needs an approval, and denies a plan
 * that is none. Undefined if the information flow requires nothing.
 */
export function flowRuling(
  level: FlowLevel,
  policy: FlowRules,
  subject: PolicySubject,
  given: PolicyCall,
): Ruling | undefined {
  const { endorsements } = policy;
  const call = endorsements ? endorsedCall(endorsements, subject, given) : given;
  const ruling = planRuling(subject, call) ?? RULINGS[level](subject, call, policy);
  if (ruling?.kind !== 'require_approval' || !endorsements || level === 'effect') return ruling;
  if (isWhollyEndorsed(endorsements, subject, call)) return undefined;
  const endorsable = endorsableIn(endorsements, subject, call);
  return endorsable ? { ...ruling, endorsable } : ruling;
}

/** The rules of a policy about where information comes from. */
type FlowRules = Pick<Policy, 'outsideBits' | 'flows' | 'endorsements'>;

/** The level of an application none of whose policies names one. */
export const DEFAULT_FLOW: FlowLevel = 'taint';

/**
 * Refuses a plan that would be none: its calls would be chosen by what was read, or added to those
 * that are fixed.
 */
function planRuling(
  { declaredId, origin }: PolicySubject,
  { flow }: PolicyCall,
): Ruling | undefined {
  if (declaredId !== COMMIT_ID || !origin.trusted || flow.mayCommit) return undefined;
  const reason = 'The calls of a turn are planned once, before anything from outside is read.';
  return { kind: 'deny', rule: 'plan', reason, isOverBudget: true };
}

type LevelRuling = (
  subject: PolicySubject,
  call: PolicyCall,
  policy: FlowRules,
) => Ruling | undefined;

const RULINGS: Readonly<Record<FlowLevel, LevelRuling>> = {
  off: () => undefined,
  effect: ({ effect }) =>
    effect === 'read_only'
      ? undefined
      : ask('effect', `A tool with the effect ${effect} needs a person's approval.`),
  trifecta: (subject, call) =>
    completesTrifecta(subject, call) ? ask('trifecta', LEGS) : undefined,
  taint: (subject, call, policy) => taintRuling('taint', subject, call, policy),
  values: (subject, call, policy) =>
    outsideArgumentRuling(subject, call, policy) ?? taintRuling('values', subject, call, policy),
  provenance: (subject, call) => provenanceRuling('provenance', subject, call),
};

const LEGS =
  'The run has read private data and untrusted content, and this tool can carry data out.';

/**
 * Tells whether a call completes the lethal trifecta: private data, untrusted content, and a way
 * out. A read of an address that the user wrote carries out only that address.
 */
function completesTrifecta(subject: PolicySubject, call: PolicyCall): boolean {
  const { integrity, confidentiality } = call.flow;
  const { egress, accepts } = subject.labels;
  if (!egress || accepts?.private || integrity === 'trusted' || confidentiality === 'public')
    return false;
  return subject.effect !== 'read_only' || !isOfSaidAddresses(subject, call);
}

/**
 * The bits from outside that a model may have read and still make the very call that the user asked
 * for: too few for an instruction.
 */
export const DEFAULT_OUTSIDE_BITS = 64;

/**
 * Decides by how much someone outside can have told the model. Nothing: the call is the user's and
 * the application's. A few bits may have chosen among calls, so that one goes unasked only where
 * the user asked for that very call. More than the budget may be an instruction.
 */
function taintRuling(
  level: FlowLevel,
  subject: PolicySubject,
  call: PolicyCall,
  { outsideBits: mostBits = DEFAULT_OUTSIDE_BITS, flows }: FlowRules,
): Ruling | undefined {
  const { outsideBits, integrity } = call.flow;
  if (outsideBits > 0 && outsideBits <= mostBits && call.flow.isRequested(subject, call))
    return undefined;
  const fixed = outsideBits <= mostBits ? 'decisive' : 'every';
  const isNamedWay = namedWays(subject, flows);
  if (integrity === 'untrusted' && call.flow.isCommitted(subject, { ...call, fixed, isNamedWay }))
    return undefined;
  return taintedRuling(level, subject, call);
}

function taintedRuling(
  level: FlowLevel,
  subject: PolicySubject,
  call: PolicyCall,
): Ruling | undefined {
  const { effect, labels } = subject;
  if (completesTrifecta(subject, call)) return ask(level, LEGS);
  if (effect === 'read_only' || labels.accepts?.untrusted || call.flow.integrity === 'trusted')
    return undefined;
  return ask(level, 'The run has read untrusted content, and this tool changes things.');
}

/**
 * Decides about text that the model did not read: it may not decide what a call does to whom,
 * unless the policy names the way that it takes.
 */
function outsideArgumentRuling(
  subject: PolicySubject,
  { outside = [] }: PolicyCall,
  { flows }: Pick<Policy, 'flows'>,
): Ruling | undefined {
  const { effect, labels } = subject;
  if ((effect === 'read_only' && !labels.egress) || labels.accepts?.untrusted) return undefined;
  const isNamed = namedWays(subject, flows);
  const decided = outside.find(
    ({ name, from }) =>
      (labels.decisive?.includes(name) ?? true) && !from.every((place) => isNamed(name, place)),
  );
  return (
    decided &&
    ask(
      'values',
      `The argument "${decided.name}" holds text from outside (${decided.from.join(', ')}).`,
    )
  );
}

/**
 * Tells which arguments of a tool the policy lets be filled from which places: none of a tool that
 * has an effect outside or lets data out.
 */
function namedWays(
  { declaredId, effect, labels }: PolicySubject,
  flows: Policy['flows'] = [],
): (argument: string, from: string) => boolean {
  const mayNameWay = effect === 'state_change' && !labels.egress;
  return (argument, from) =>
    mayNameWay &&
    flows.some((one) => one.tool === declaredId && one.argument === argument && one.from === from);
}

/**
 * Decides by origin: decisive arguments must come from the user, and the others may come from
 * anywhere, as long as no private data can leave in them.
 */
function provenanceRuling(
  level: FlowLevel,
  subject: PolicySubject,
  call: PolicyCall,
): Ruling | undefined {
  if (!isTraced(subject, call)) return taintedRuling(level, subject, call);
  return completesTrifecta(subject, call) && !isWhollyTraced(subject, call)
    ? ask(level, LEGS)
    : undefined;
}

function ask(level: FlowLevel, reason: string): Ruling {
  return { kind: 'require_approval', rule: `flow: ${level}`, reason };
}

/**
 * Tells whether every decisive argument of a call comes from the user's own words or from trusted
 * results. A value without an origin, such as a switch or one that the schema lists, proves
 * nothing: a call without any other value is not traced.
 */
export function isTraced(subject: PolicySubject, call: PolicyCall): boolean {
  return isEachTraced(subject.labels.decisive ?? Object.keys(call.args), subject, call);
}

/** Tells whether every argument of a call is traced, including those that are not decisive. */
export function isWhollyTraced(subject: PolicySubject, call: PolicyCall): boolean {
  return isEachTraced(Object.keys(call.args), subject, call);
}

/**
 * Tells whether a call carries out only addresses that the user wrote in full: their hosts learn no
 * more than the user wrote.
 */
export function isOfSaidAddresses(subject: PolicySubject, call: PolicyCall): boolean {
  const values = valuesOf(Object.keys(call.args), subject, call);
  return values.length > 0 && values.every((value) => isAddress(value) && call.flow.isSaid(value));
}

function isAddress(value: string | number): value is string {
  return isWebAddress(value) && !/\s/.test(value);
}

function isEachTraced(names: readonly string[], subject: PolicySubject, call: PolicyCall): boolean {
  const values = valuesOf(names, subject, call);
  return values.length > 0 && values.every((value) => call.flow.isTraced(value));
}

function valuesOf(
  names: readonly string[],
  { inputSchema }: PolicySubject,
  { args, instanceId }: PolicyCall,
): readonly (string | number)[] {
  const values = names.flatMap((name) => tellingValues(args[name], propertyOf(inputSchema, name)));
  return instanceId === undefined ? values : [...values, instanceId];
}

function propertyOf({ properties = {} }: JSONSchema7, name: string): JSONSchema7 {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return typeof property === 'object' ? property : {};
}

/**
 * Returns texts and numbers at any depth, including keys of objects, without those that the schema
 * itself lists.
 */
function tellingValues(value: JsonValue | undefined, schema: JSONSchema7): (string | number)[] {
  if (value === undefined || value === null || isGiven(value, schema)) return [];
  if (isJsonList(value)) return value.flatMap((item) => tellingValues(item, itemsOf(schema)));
  if (typeof value === 'object')
    return Object.entries(value).flatMap(([key, item]) => tellingEntry(key, item, schema));
  return typeof value === 'boolean' || value === '' ? [] : [value];
}

function tellingEntry(key: string, value: JsonValue, schema: JSONSchema7): (string | number)[] {
  const isDeclared = schema.properties !== undefined && Object.hasOwn(schema.properties, key);
  const telling = tellingValues(value, propertyOf(schema, key));
  return isDeclared ? telling : [key, ...telling];
}

function isGiven(value: JsonValue, schema: JSONSchema7): boolean {
  return schema.enum !== undefined || (schema.default !== undefined && value === schema.default);
}

function itemsOf({ items }: JSONSchema7): JSONSchema7 {
  return typeof items === 'object' && !Array.isArray(items) ? items : {};
}

/**
 * The labels of all that a model has read: one untrusted result taints everything after it, and one
 * private message makes everything private.
 */
export class MessageFlow implements InformationFlow {
  private trusted: TrustedText | undefined;
  private said: TrustedText | undefined;

  private request: UserRequest | undefined;
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

  isTraced(value: string | number): boolean {
    this.trusted ??= new TrustedText(this.withAuthority.flatMap(textsOf));
    return this.trusted.has(value) || this.outer?.isTraced(value) === true;
  }

  isRequested(tool: PolicyTool, call: RequestableCall): boolean {
    this.request ??= new UserRequest(wordsOfTurn(this.messages));
    return this.request.names(tool, call) || this.outer?.isRequested(tool, call) === true;
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

/**
 * The user's last words, with nothing of a model or a tool between them: what they had asked for
 * before was done or refused by then.
 */
function wordsOfTurn(messages: readonly Message[]): readonly string[] {
  const last = messages.findLastIndex(isOfUser);
  const before = messages
    .slice(0, Math.max(0, last))
    .findLastIndex(({ role }) => role === 'assistant' || role === 'tool');
  return messages
    .slice(before + 1)
    .filter(isOfUser)
    .flatMap(textsOf);
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
