export type { Operator, OperatorAction, OperatorRule } from '../contracts/operator.js';
export { PolicyEngine } from '../contracts/policy.js';
export type {
  ConnectionRule,
  InformationFlow,
  PolicyActor,
  PolicyCall,
  PolicyGrants,
  PolicySubject,
  PolicyTool,
  QuestionRule,
  RunBudget,
  RunSpending,
  VouchedTool,
} from '../contracts/policy.js';
export { DataPolicyEngine } from './policy-engine.js';
export type { ApprovalTerms, CallBudget } from '@toolloop/protocol';
