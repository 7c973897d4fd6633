import { clientTool, tool, ToolField } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Matches } from 'class-validator';
import { Product } from '../desk/entities.js';

/** The input that a user's device gives. */
export class Barcode {
  @ToolField({ description: 'The digits below the bars.' }) @Matches(/^\d{8,14}$/) barcode!: string;
}

/** Runs where the user is: no server sees what is on the table. */
export const scanBarcode = clientTool({
  id: 'device__scanBarcode',
  description: "Scan the barcode of a parcel with the camera of the user's device.",
  effect: 'read_only',
  output: Barcode,
  labels: { reads: 'public' },
});

const CENTS_UP_TO_2_KG = 549;
const CENTS_BEYOND = 1049;

/** Only the person at the desk knows what the parcel weighs. */
export const quotePostage = tool({
  id: 'parcels__quotePostage',
  description: 'Quote the postage of the parcel on the desk.',
  effect: 'read_only',
  reveal: 'all',
  labels: { reads: 'public', returns: 'trusted' },
  execute: async (_input, context) => {
    const schema = { type: 'integer', minimum: 1, maximum: 31_500 } as const;
    const grams = await context.ask({
      key: 'grams',
      question: 'How many grams does the parcel weigh?',
      schema,
    });
    return { grams, postageCents: Number(grams) <= 2_000 ? CENTS_UP_TO_2_KG : CENTS_BEYOND };
  },
});

const SET_PRICE = 'Change the price of a product. Orders already placed keep theirs.';

/** The tools of the catalog. */
@ToolResource(Product, {
  namespace: 'catalog',
  actions: {
    read: {
      description: 'Search the products we sell by name, price and stock.',
      labels: { reads: 'public', returns: 'trusted' },
    },
    update: { description: SET_PRICE, accept: ['price'], labels: { returns: 'trusted' } },
  },
})
export class ProductTools {}
