import { ToolField } from '@toolloop/core';
import { Type } from 'class-transformer';
import { IsDefined, IsEnum, Matches, ValidateNested } from 'class-validator';
import { Currency } from '../money/currency.js';

export class Price {
  @ToolField({ description: 'Decimal with up to two digits, e.g. "649.00".' })
  @Matches(/^\d{1,7}(\.\d{1,2})?$/)
  amount!: string;

  @IsEnum(Currency) currency!: Currency;
}

export class SetPrice {
  @ToolField({ description: 'Such as p-102.' }) @Matches(/^p-\d{1,9}$/) productId!: string;
  @IsDefined() @ValidateNested() @Type(() => Price) price!: Price;
}
