export { attackCases, caseOf, dataSetIn, withCase } from './data-set.js';
export type { Attack, DataSet, EvalCase, ExpectedCall } from './data-set.js';
export { evaluate } from './evaluation.js';
export type { EvalOptions, ScoredRun, Variant } from './evaluation.js';
export { judgeModel, measureJudge, toJudged } from './judge.js';
export type { Judge, JudgedRun, Judgement, JudgeMeasure, LabelledRun } from './judge.js';
export { recordRun } from '@toolloop/testing';
export type { RecordedRun } from '@toolloop/testing';
export { addVerdict, reportIn, verdictsIn } from './saved-verdicts.js';
export { reportText } from './report.js';
export { verdictOn } from './report-verdict.js';
export type { Regression, ReportVerdict, Threshold } from './report-verdict.js';
export { finish } from './scorers.js';
export type { Scorer } from './scorers.js';
export type {
  EvalReport,
  EvalRun,
  Score,
  ScoredCall,
  VariantSummary,
  Verdict,
} from '@toolloop/protocol';
