import type {
  ContentPart,
  LanguageModel,
  Message,
  ModelCapabilities,
  ModelRequest,
} from '@toolloop/protocol';

/**
 * Fits a request to a model's capabilities: images, files and recordings that it does not accept
 * are replaced by their names, and without support for schemas the instructions describe the form
 * of the answer. Returns the same object if the model accepts it as it is.
 */
export function fitted(request: ModelRequest, { capabilities }: LanguageModel): ModelRequest {
  const { answerFormat, instructions } = request;
  const isTold = answerFormat !== undefined && capabilities.structuredOutput === false;
  if (!isTold && takesMedia(request.messages, capabilities)) return request;
  const { answerFormat: _, ...rest } = request;
  return {
    ...rest,
    messages: request.messages.map((message) => withoutMedia(message, capabilities)),
    ...(answerFormat !== undefined && !isTold && { answerFormat }),
    ...(isTold && {
      instructions: [instructions, inWords(answerFormat)].filter(Boolean).join('\n\n'),
    }),
  };
}

/** Tells whether a model accepts all images, files and recordings in these messages. */
export function takesMedia(messages: readonly Message[], capabilities: MediaTaken): boolean {
  return messages.every((message) => partsOf(message).every((part) => takes(part, capabilities)));
}

const NOUNS = { images: 'An image', files: 'A file', audio: 'A recording' };

type MediaTaken = Pick<ModelCapabilities, 'images' | 'files' | 'audio'>;

/**
 * The fitted messages by their originals. Messages are immutable and stay the same objects from
 * step to step, and so do their fitted forms.
 */
const shown = new WeakMap<Message, { readonly taken: string; readonly message: Message }>();

function takes(part: ContentPart, capabilities: MediaTaken): boolean {
  const medium = mediumOf(part);
  if (medium === undefined) return true;
  return medium === 'audio' ? capabilities.audio === true : capabilities[medium] !== false;
}

/** The capability that a part needs; undefined for a text. */
function mediumOf(part: ContentPart): keyof MediaTaken | undefined {
  if (part.type === 'text') return undefined;
  if (part.type === 'image') return 'images';
  return /^audio\//i.test(part.mediaType) ? 'audio' : 'files';
}

function partsOf({ content }: Message): readonly ContentPart[] {
  return typeof content === 'string' ? [] : content;
}

function withoutMedia(message: Message, capabilities: MediaTaken): Message {
  if (
    (message.role !== 'user' && message.role !== 'tool') ||
    partsOf(message).every((part) => takes(part, capabilities))
  )
    return message;
  const taken = `${capabilities.images}${capabilities.files}${capabilities.audio}`;
  const known = shown.get(message);
  if (known?.taken === taken) return known.message;
  const content = partsOf(message).map((part) => (takes(part, capabilities) ? part : toNote(part)));
  const told: Message = { ...message, content };
  shown.set(message, { taken, message: told });
  return told;
}

function toNote(part: ContentPart): ContentPart {
  const medium = mediumOf(part);
  return medium === undefined
    ? part
    : { type: 'text', text: `[${NOUNS[medium]}, which you cannot be shown.]` };
}

function inWords({ schema }: NonNullable<ModelRequest['answerFormat']>): string {
  return `Give your final answer as one JSON object and nothing else. It must match this JSON Schema: ${JSON.stringify(schema)}`;
}
