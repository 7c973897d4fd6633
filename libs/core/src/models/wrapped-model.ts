import { type AttemptControl, LanguageModel, type ModelCapabilities } from '@toolloop/protocol';

/** A model around another one, whose name, capabilities and control it has. */
export abstract class WrappedModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(protected readonly model: LanguageModel) {
    super();
    ({ provider: this.provider, modelId: this.modelId, capabilities: this.capabilities } = model);
  }

  override get controls(): AttemptControl {
    return this.model.controls;
  }
}
