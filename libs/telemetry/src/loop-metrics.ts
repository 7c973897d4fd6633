import type { Attributes, Counter, Histogram, Meter } from '@opentelemetry/api';
import type { ModelQuestion, RunEnd, RunView } from '@toolloop/core/plugin';
import type { ModelAnswer, RunIdentity, ToolInvocationRecord } from '@toolloop/protocol';
import { ERROR_TYPE, GEN_AI, METRICS, TOOLLOOP } from './conventions.js';

/**
 * The metrics of all runs. Their attributes are names of the application and of providers: no
 * arguments, no ids of runs, calls or people.
 */
export class LoopMetrics {
  private readonly modelDuration: Histogram;
  private readonly tokens: Histogram;
  private readonly runDuration: Histogram;
  private readonly toolDuration: Histogram;
  private readonly cost: Counter;
  private readonly refusals: Counter;
  private readonly pendingRequests: Counter;
  private readonly pendingAnswers: Counter;
  private readonly injectedTools: Counter;
  private readonly queueAge: Histogram;
  /**
   * The last labels of each model and of each tool: to make them, or a key of their parts, for each
   * question again takes longer than to compare these.
   */
  private readonly modelLabels = new Map<string, ModelLabels>();
  private readonly toolLabels = new Map<string, ToolLabels>();

  constructor(
    meter: Meter,
    private readonly hasTenants: boolean,
  ) {
    const seconds = (name: string, description: string): Histogram =>
      meter.createHistogram(name, {
        unit: 's',
        description,
        advice: { explicitBucketBoundaries: SECONDS },
      });
    this.modelDuration = seconds(
      METRICS.modelDuration,
      'The time of one question to a model, until its last byte.',
    );
    this.runDuration = seconds(
      METRICS.runDuration,
      'The time of one run, or of its part between two waits.',
    );
    this.queueAge = seconds(METRICS.queueAge, 'The time that a durable run waited for a process.');
    this.toolDuration = seconds(
      METRICS.toolDuration,
      'The time of one call of a tool, through every stage.',
    );
    this.tokens = meter.createHistogram(METRICS.tokens, {
      unit: '{token}',
      description: 'The tokens of one question to a model.',
      advice: { explicitBucketBoundaries: TOKENS },
    });
    this.cost = meter.createCounter(METRICS.cost, {
      unit: '{USD}',
      description: 'The known cost of models, in US dollars.',
    });
    const counter = (name: string, unit: string, description: string): Counter =>
      meter.createCounter(name, { unit, description });
    this.refusals = counter(
      METRICS.refusals,
      '{call}',
      'The calls that policy, a person or a limit refused.',
    );
    this.pendingRequests = counter(
      METRICS.pendingRequests,
      '{request}',
      'What runs asked people and clients.',
    );
    this.pendingAnswers = counter(
      METRICS.pendingAnswers,
      '{answer}',
      'What people and clients answered.',
    );
    this.injectedTools = counter(METRICS.injected, '{tool}', 'The tools that results brought.');
  }

  runEnded(run: RunView, { finish }: Partial<RunEnd>, seconds: number): void {
    const code = finish?.error?.code;
    this.runDuration.record(seconds, {
      [GEN_AI.operation]: 'invoke_agent',
      ...(run.facts.loop !== undefined && { [GEN_AI.agent]: run.facts.loop }),
      [TOOLLOOP.finishReason]: finish?.reason ?? 'elsewhere',
      ...(code !== undefined && { [ERROR_TYPE]: code }),
      ...this.tenantOf(run),
    });
  }

  /** Counts the wait of a run that begins; one that is resumed waited for people. */
  queued(run: RunView, milliseconds: number): void {
    this.queueAge.record(milliseconds / 1000, {
      ...(run.facts.loop !== undefined && { [GEN_AI.agent]: run.facts.loop }),
      ...this.tenantOf(run),
    });
  }

  answered(
    call: AskedModel,
    answer: ModelAnswer | undefined,
    errorType: string | undefined,
    seconds: number,
  ): void {
    const labels = this.labelsOf(call, answer?.response?.model);
    this.modelDuration.record(
      seconds,
      errorType === undefined ? labels.about : { ...labels.about, [ERROR_TYPE]: errorType },
    );
    if (!answer) return;
    const { inputTokens, outputTokens, costUsd = 0 } = answer.usage;
    if (inputTokens > 0) this.tokens.record(inputTokens, labels.input);
    if (outputTokens > 0) this.tokens.record(outputTokens, labels.output);
    if (costUsd > 0) this.cost.add(costUsd, labels.about);
  }

  private labelsOf(
    { provider, modelId, tenant }: AskedModel,
    responseModel: string | undefined,
  ): ModelLabels {
    const known = this.modelLabels.get(modelId);
    if (
      known &&
      known.responseModel === responseModel &&
      known.provider === provider &&
      this.isOf(known, tenant)
    )
      return known;
    const about = {
      [GEN_AI.operation]: 'chat',
      [GEN_AI.provider]: provider,
      [GEN_AI.requestModel]: modelId,
      ...(responseModel && { [GEN_AI.responseModel]: responseModel }),
      ...this.tenantOf({ tenant }),
    };
    const input = { ...about, [GEN_AI.tokenType]: 'input' };
    const output = { ...about, [GEN_AI.tokenType]: 'output' };
    return keep(this.modelLabels, modelId, {
      provider,
      responseModel,
      tenant,
      about,
      input,
      output,
    });
  }

  /**
   * Tools are named as declared: the ids of entity tools have instances in them, and a model makes
   * up any name.
   */
  called(
    { tenant }: Pick<RunIdentity, 'tenant'>,
    record: ToolInvocationRecord,
    seconds: number,
  ): void {
    const { about } = this.labelsOfTool(tenant, record);
    this.toolDuration.record(seconds, about);
    if (record.status === 'denied') this.refusals.add(1, about);
  }

  private labelsOfTool(
    tenant: string,
    { declaredId = 'unknown', status, effect, error }: ToolInvocationRecord,
  ): ToolLabels {
    const made = { status, effect, code: error?.code, tenant };
    const known = this.toolLabels.get(declaredId);
    if (known && areOf(known, made) && this.isOf(known, tenant)) return known;
    const about = {
      [GEN_AI.operation]: 'execute_tool',
      [GEN_AI.tool]: declaredId,
      [TOOLLOOP.status]: status,
      ...(effect && { [TOOLLOOP.effect]: effect }),
      ...(error && { [ERROR_TYPE]: error.code }),
      ...this.tenantOf({ tenant }),
    };
    return keep(this.toolLabels, declaredId, { ...made, about });
  }

  private isOf(labels: { readonly tenant: string }, tenant: string): boolean {
    return !this.hasTenants || labels.tenant === tenant;
  }

  asked(run: RunIdentity, kind: string): void {
    this.pendingRequests.add(1, { [TOOLLOOP.pendingKind]: kind, ...this.tenantOf(run) });
  }

  decided(run: RunIdentity, kind: string, answer: string): void {
    this.pendingAnswers.add(1, {
      [TOOLLOOP.pendingKind]: kind,
      [TOOLLOOP.answer]: answer,
      ...this.tenantOf(run),
    });
  }

  injected(run: RunIdentity, source: string, tools: number): void {
    this.injectedTools.add(tools, { [TOOLLOOP.source]: source, ...this.tenantOf(run) });
  }

  private tenantOf({ tenant }: Pick<RunIdentity, 'tenant'>): Attributes {
    return this.hasTenants ? { [TOOLLOOP.tenant]: tenant } : {};
  }
}

/** The buckets that the conventions advise, in seconds and in tokens. */
const SECONDS = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const TOKENS = [
  1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
];

/** The labels that are kept: a provider may name its models as it likes. */
const MOST_LABELS = 1_000;

/** The model of one question, and whose question it is. */
type AskedModel = Pick<ModelQuestion, 'provider' | 'modelId'> & Pick<RunIdentity, 'tenant'>;

/** The labels of the questions to one model, and what they were made of. */
interface ModelLabels {
  readonly provider: string;
  readonly responseModel: string | undefined;
  readonly tenant: string;
  readonly about: Attributes;
  readonly input: Attributes;
  readonly output: Attributes;
}

/** The labels of the calls of one tool, and what they were made of. */
interface ToolLabels extends Pick<ToolInvocationRecord, 'status'> {
  readonly effect: ToolInvocationRecord['effect'] | undefined;
  readonly code: string | undefined;
  readonly tenant: string;
  readonly about: Attributes;
}

function keep<Labels>(known: Map<string, Labels>, name: string, labels: Labels): Labels {
  if (known.has(name) || known.size < MOST_LABELS) known.set(name, labels);
  return labels;
}

function areOf(
  known: ToolLabels,
  { status, effect, code }: Pick<ToolLabels, 'status' | 'effect' | 'code'>,
): boolean {
  return known.status === status && known.effect === effect && known.code === code;
}
