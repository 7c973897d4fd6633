import type { ContentPart, LanguageModel, Message, ModelCapabilities, ModelRequest } from '@toolloop/protocol';

const NOUNS = { image: 'An image', file: 'A file' };

type MediaTaken = Pick<ModelCapabilities, 'images' | 'files'>;

/** Messages are immutable and stay the same objects from step to step: what a model is shown of one stays the same object, too. */
const shown = new WeakMap<Message, { readonly taken: string; readonly message: Message }>();

/** Whether a model takes all that stands in these messages. */
export function takesMedia(messages: readonly Message[], capabilities: MediaTaken): boolean {
  return takesEverything(capabilities) || messages.every((message) => partsOf(message).every((part) => takes(part, capabilities)));
}

/**
 * The request as a model can take it: images and files it knows nothing of are named and left out, and the form of the answer is told in words where
 * the model takes no schema. The same object where the model takes it as it is.
 */
export function fitted(request: ModelRequest, { capabilities }: LanguageModel): ModelRequest {
  const { answerFormat, instructions } = request;
  const isTold = answerFormat !== undefined && capabilities.structuredOutput === false;
  if (!isTold && takesEverything(capabilities)) return request;
  const { answerFormat: _, ...rest } = request;
  return {
    ...rest,
    messages: request.messages.map((message) => withoutMedia(message, capabilities)),
    ...(answerFormat !== undefined && !isTold && { answerFormat }),
    ...(isTold && { instructions: [instructions, inWords(answerFormat)].filter(Boolean).join('\n\n') }),
  };
}

function takesEverything({ images, files }: MediaTaken): boolean {
  return images !== false && files !== false;
}

function takes({ type }: ContentPart, { images, files }: MediaTaken): boolean {
  if (type === 'text') return true;
  return (type === 'image' ? images : files) !== false;
}

function partsOf({ content }: Message): readonly ContentPart[] {
  return typeof content === 'string' ? [] : content;
}

function withoutMedia(message: Message, capabilities: MediaTaken): Message {
  if ((message.role !== 'user' && message.role !== 'tool') || partsOf(message).every((part) => takes(part, capabilities))) return message;
  const taken = `${capabilities.images}${capabilities.files}`;
  const known = shown.get(message);
  if (known?.taken === taken) return known.message;
  const content = partsOf(message).map((part) => (takes(part, capabilities) ? part : toNote(part)));
  const told: Message = { ...message, content };
  shown.set(message, { taken, message: told });
  return told;
}

function toNote(part: ContentPart): ContentPart {
  return part.type === 'text' ? part : { type: 'text', text: `[${NOUNS[part.type]}, which you cannot be shown.]` };
}

function inWords({ schema }: NonNullable<ModelRequest['answerFormat']>): string {
  return `Give your final answer as one JSON object and nothing else. It must match this JSON Schema: ${JSON.stringify(schema)}`;
}
