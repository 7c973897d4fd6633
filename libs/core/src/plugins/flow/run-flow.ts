import type { Message, MessageLabels } from '@toolloop/protocol';
import type { Toolset } from '../../catalog/toolset.js';
import type { InformationFlow } from '../../contracts/policy.js';
import { showsUnpinned } from '../sources/vouched-tools.js';
import { labelsOfBits, type MessageFlow } from './message-flow.js';

/**
 * The labels of all that the model of one run has read: the transcript, and what it was shown
 * beside it.
 */
export class RunFlow {
  private wasShownMore = false;
  /** The ids of entities whose tools were offered. */
  private readonly known = new Set<string>();

  constructor(private flow: MessageFlow) {}

  /**
   * Notes what a model is shown beside the transcript: what it has read it has read, whatever the
   * transcript says.
   */
  show(messages: readonly Message[]): void {
    this.flow = this.flow.beside(messages);
    this.wasShownMore = true;
  }

  /**
   * Notes which tools a model is offered: a description that is not pinned is a stranger's text.
   */
  offer(toolset: Toolset): void {
    if (!showsUnpinned(toolset)) return;
    this.flow = this.flow.tainted();
    this.wasShownMore = true;
  }

  /**
   * Notes the ids of entities that stand in no message, and so were counted nowhere: where texts
   * are hidden, the names and descriptions of their tools would tell the model what a stranger
   * chose.
   */
  offerEntities({ tools }: Toolset, read: readonly Message[]): void {
    const fresh = new Set(
      tools.flatMap(({ entity }) =>
        entity && !this.known.has(entity.instanceId) ? [entity.instanceId] : [],
      ),
    );
    for (const id of fresh) this.known.add(id);
    if ([...fresh].every((id) => read.some(({ content }) => JSON.stringify(content).includes(id))))
      return;
    this.flow = this.flow.tainted();
    this.wasShownMore = true;
  }

  /** The flow with this transcript read; from here on it is. */
  at(read: readonly Message[]): InformationFlow {
    this.flow = this.flow.at(read);
    return this.flow;
  }

  /** The worth of an answer whose model was shown more than the transcript tells. */
  get beyondTranscript(): MessageLabels | undefined {
    return this.wasShownMore ? labelsOf(this.flow) : undefined;
  }

  /** The worth of all that the model has read by the end of this transcript. */
  readIn(messages: readonly Message[]): MessageLabels {
    return labelsOf(this.flow.at(messages));
  }
}

function labelsOf({ outsideBits, confidentiality }: InformationFlow): MessageLabels {
  return { ...labelsOfBits(outsideBits), reads: confidentiality };
}
